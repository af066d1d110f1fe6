package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

var _ = Describe("A Swarm with a limit of finished tasks", Serial, func() {
	It("keeps the newest, and those that a finalizer protects", func(ctx SpecContext) {
		const tasks, limit = 20, 5
		ns := namespace(ctx, nil)
		runAgents(ctx, ns)
		swarm := newTeam(ns, "ants", 2)
		startOperator(onlyNamespace(ns), linkAddress)
		Expect(api.Create(ctx, swarm)).To(Succeed())
		Expect(swarm.Spec.Tasks).To(And(HaveField("FinishedLimit", HaveValue(BeEquivalentTo(1000))),
			HaveField("TTLSecondsAfterFinished", HaveValue(BeEquivalentTo(3600)))))
		testcluster.MustKubectl(ctx, "wait", "--namespace", ns, "swarm/ants", "--for=condition=Ready", "--timeout=60s")
		for n := range tasks {
			submit(ctx, swarm, fmt.Sprintf("t%02d", n), taskOrder{})
		}
		Eventually(finishedTasks).WithContext(ctx).WithArguments(ns).WithTimeout(time.Minute).Should(HaveLen(tasks))
		all, err := finishedTasks(ctx, ns)
		Expect(err).NotTo(HaveOccurred())
		protected := objectAt(&v1alpha1.Task{}, ns, all[0])
		change(ctx, protected, func() { protected.Finalizers = []string{"example.test/archive"} })
		DeferCleanup(func(ctx SpecContext) { change(ctx, protected, func() { protected.Finalizers = nil }) })

		change(ctx, swarm, func() { swarm.Spec.Tasks.FinishedLimit = new(int32(limit)) })
		kept := append([]string{all[0]}, all[tasks-limit:]...)
		Eventually(finishedTasks).WithContext(ctx).WithArguments(ns).WithTimeout(20 * time.Second).Should(Equal(kept))

		// From now on each one that finishes replaces another. Of those that finish in the same second the name decides.
		submit(ctx, swarm, "zz-next", taskOrder{})
		Eventually(finishedTasks).WithContext(ctx).WithArguments(ns).WithTimeout(20 * time.Second).Should(Equal(append([]string{all[0]},
			append(kept[2:], "zz-next")...)))
		Expect(api.Get(ctx, client.ObjectKeyFromObject(protected), protected)).To(Succeed())
		Expect(protected.DeletionTimestamp).To(BeNil())
	})
})

// finishedTasks are the finished tasks of a namespace, by the time when they finished and by name.
func finishedTasks(ctx context.Context, ns string) ([]string, error) {
	list := &v1alpha1.TaskList{}
	err := api.List(ctx, list, client.InNamespace(ns))
	tasks := slices.DeleteFunc(list.Items, func(task v1alpha1.Task) bool { return !task.Status.Phase.Final() })
	slices.SortFunc(tasks, func(x, y v1alpha1.Task) int {
		return cmp.Or(x.Status.CompletionTime.Compare(y.Status.CompletionTime.Time), cmp.Compare(x.Name, y.Name))
	})
	var names []string
	for n := range tasks {
		names = append(names, tasks[n].Name)
	}
	return names, err
}
