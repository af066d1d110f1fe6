package pool

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// withWeight gives one job a weight of its own, and every other one the weight 1.
func withWeight(name string, weight int32, others string) []v1alpha1.Job {
	return append([]v1alpha1.Job{{Name: name, Weight: weight}}, jobsNamed(others)...)
}

// runningWeights sums up the weights of the jobs that each worker runs.
func (s *environment) runningWeights() map[string]int32 {
	weights := map[string]int32{}
	for _, job := range s.pool.Spec.Jobs {
		weights[job.Name] = max(1, job.Weight)
	}
	loads := map[string]int32{}
	for worker, jobs := range workers.Journal(s.namespace).Running() {
		for _, job := range jobs {
			loads[worker] += weights[job]
		}
	}
	return loads
}

var _ = Describe("Weighted jobs", func() {
	It("[P13/weighted] are balanced by weight, and again when a weight changes", func(ctx SpecContext) {
		s := newStatefulSetPool(ctx, 2, withWeight("heavy", 6, "a b c d e f"))
		Expect(s.runningWeights()).To(Equal(map[string]int32{"w-0": 6, "w-1": 6}), "by number they would be 4 and 3")
		Expect(s.lists(ctx)).To(ContainElement([]string{"heavy"}))

		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.Jobs = withWeight("heavy", 2, "a b c d e f") })
		s.awaitSettled(ctx)
		Expect(s.runningWeights()).To(Equal(map[string]int32{"w-0": 4, "w-1": 4}))
	})
})
