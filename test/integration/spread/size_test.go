package spread

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

var _ = Describe("A workload that grows and shrinks", func() {
	It("[R03/exact-split, R03/no-evictions, R15/webhook-by-all] is exact after a burst through three replicas of the operator, and nothing is moved", func(ctx SpecContext) {
		s := newCoveredEnvironment(ctx)
		replicaFleet.ensureReplicas(ctx, 3)
		replicaFleet.awaitLeader(ctx)
		burst := s.deployment(ctx, "burst", 0, spreadSettings("4", "80"))
		burst.status(ctx, v1alpha1.SpreadBalanced)
		began := time.Now()
		burst.scale(ctx, 50)
		burst.awaitSettled(ctx, 10, 40)
		reportDuration("50 pods are balanced after", time.Since(began))
		Expect(s.numbers(ctx, "burst")).To(Equal(ordinalsBelow(50)))
		Expect(s.moves()).To(BeEmpty())
		askedOf := map[string]int{}
		for _, question := range replicaFleet.requestsIn(s.namespace) {
			askedOf[question.replica]++
		}
		Expect(askedOf).To(And(HaveLen(3), HaveEach(BeNumerically(">=", 15))), "all replicas were asked")
	})

	It("has the right mix at 10, 15 and 5 pods, and nothing is moved", func(ctx SpecContext) {
		s := newCoveredEnvironment(ctx)
		all := s.createBoth(ctx, "ten", 10, spreadSettings("2", "60"))
		for _, step := range []struct{ size, onDemand, spot int }{{10, 4, 6}, {15, 6, 9}, {5, 2, 3}} {
			for _, w := range all {
				w.scale(ctx, step.size)
			}
			for _, w := range all {
				w.awaitSettled(ctx, step.onDemand, step.spot)
			}
			Expect(s.numbers(ctx, "ten-d")).To(Equal(ordinalsBelow(step.size)))
		}
		Expect(s.moves()).To(BeEmpty())
	})

	It("has the right mix at 1, 200 and again 1 pod, and nothing is moved", func(ctx SpecContext) {
		s := newCoveredEnvironment(ctx)
		w := s.deployment(ctx, "many", 1, spreadSettings("2", "60"))
		for _, step := range []struct{ size, onDemand, spot int }{{1, 1, 0}, {200, 80, 120}, {1, 1, 0}} {
			w.scale(ctx, step.size)
			w.awaitSettled(ctx, step.onDemand, step.spot)
			Expect(s.numbers(ctx, "many")).To(Equal(ordinalsBelow(step.size)))
		}
		Expect(s.moves()).To(BeEmpty())
	})

	It("has the right mix after a rollout with more pods than replicas, and nothing is moved", func(ctx SpecContext) {
		s := newCoveredEnvironment(ctx)
		w := s.deployment(ctx, "rolled", 10, spreadSettings("2", "60"))
		w.awaitSettled(ctx, 4, 6)
		w.patch(ctx, map[string]any{"spec": map[string]any{
			"strategy": map[string]any{"rollingUpdate": map[string]any{"maxSurge": "50%", "maxUnavailable": 0}},
			"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"version": "2"}}},
		}})
		Eventually(func() (int, error) {
			found := &corev1.PodList{}
			err := api.List(ctx, found, client.InNamespace(s.namespace), client.MatchingLabels{"version": "2"})
			return len(found.Items), err
		}).Should(Equal(10))
		w.awaitSettled(ctx, 4, 6)
		Expect(s.numbers(ctx, "rolled")).To(Equal(ordinalsBelow(10)))
		Expect(s.moves()).To(BeEmpty())
	})

	It("has its floor when pods come one by one, whatever dry runs ask in between", func(ctx SpecContext) {
		s := newCoveredEnvironment(ctx)
		w := s.deployment(ctx, "single", 0, spreadSettings("4", "100"))
		w.status(ctx, v1alpha1.SpreadBalanced)
		for size := range 10 {
			w.scale(ctx, size+1)
			w.awaitRunning(ctx, min(size+1, 4), max(0, size-3))
			number, class := s.dryRun(ctx, "single")
			Expect(number).To(Equal(fmt.Sprint(size+1)), "what would come next")
			Expect(class).To(Equal(map[bool]string{true: onDemand, false: spot}[size+1 < 4]))
		}
		w.awaitSettled(ctx, 4, 6)
		Expect(s.moves()).To(BeEmpty())
	})
})

// numbers are the numbers of a workload's pods, ascending.
func (s *environment) numbers(ctx context.Context, name string) ([]int, error) {
	pods, err := s.pods(ctx, name)
	var ordinals []int
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			ordinals = append(ordinals, numberOf(pod))
		}
	}
	return ordinals, err
}

// ordinalsBelow are the numbers below a size.
func ordinalsBelow(size int) []int {
	var all []int
	for n := range size {
		all = append(all, n)
	}
	return all
}

// dryRun returns what the next pod of a Deployment would get, and takes nothing.
func (s *environment) dryRun(ctx context.Context, name string) (number, class string) {
	GinkgoHelper()
	sets := &appsv1.ReplicaSetList{}
	Expect(api.List(ctx, sets, client.InNamespace(s.namespace), client.MatchingLabels{"app": name})).To(Succeed())
	Expect(sets.Items).To(HaveLen(1))
	pod := s.podOf(&sets.Items[0], "ReplicaSet", sets.Items[0].Spec.Template.Labels)
	Expect(api.Create(ctx, pod, client.DryRunAll)).To(Succeed())
	return pod.Annotations[annotationKey(v1alpha1.SpreadNumber)], pod.Annotations[annotationKey(v1alpha1.SpreadClass)]
}
