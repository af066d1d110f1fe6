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
	"github.com/swarm-io/swarm-operator/internal/testkit/field"
)

var _ = Describe("A Swarm with a limit of finished tasks", Serial, func() {
	It("keeps the newest, and those that a finalizer protects", func(ctx SpecContext) {
		const tasks, limit = 20, 5
		in := namespace(ctx, nil)
		employ(ctx, in)
		swarm := team(in, "ants", 2)
		program(only(in), linkAddress)
		Expect(api.Create(ctx, swarm)).To(Succeed())
		Expect(swarm.Spec.Tasks).To(And(HaveField("FinishedLimit", HaveValue(BeEquivalentTo(1000))), HaveField("TTLSecondsAfterFinished", HaveValue(BeEquivalentTo(3600)))))
		field.MustKubectl(ctx, "wait", "--namespace", in, "swarm/ants", "--for=condition=Ready", "--timeout=60s")
		for n := range tasks {
			submit(ctx, swarm, fmt.Sprintf("t%02d", n), order{})
		}
		Eventually(finished).WithContext(ctx).WithArguments(in).WithTimeout(time.Minute).Should(HaveLen(tasks))
		all, err := finished(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		protected := at(&v1alpha1.Task{}, in, all[0])
		change(ctx, protected, func() { protected.Finalizers = []string{"example.test/archive"} })
		DeferCleanup(func(ctx SpecContext) { change(ctx, protected, func() { protected.Finalizers = nil }) })

		change(ctx, swarm, func() { swarm.Spec.Tasks.FinishedLimit = new(int32(limit)) })
		kept := append([]string{all[0]}, all[tasks-limit:]...)
		Eventually(finished).WithContext(ctx).WithArguments(in).WithTimeout(20 * time.Second).Should(Equal(kept))

		// From now on each one that finishes replaces another. Of those that finish in the same second the name decides.
		submit(ctx, swarm, "zz-next", order{})
		Eventually(finished).WithContext(ctx).WithArguments(in).WithTimeout(20 * time.Second).Should(Equal(append([]string{all[0]}, append(kept[2:], "zz-next")...)))
		Expect(api.Get(ctx, client.ObjectKeyFromObject(protected), protected)).To(Succeed())
		Expect(protected.DeletionTimestamp).To(BeNil())
	})
})

// finished are the finished tasks of a namespace, by the time when they finished and by name.
func finished(ctx context.Context, in string) ([]string, error) {
	list := &v1alpha1.TaskList{}
	err := api.List(ctx, list, client.InNamespace(in))
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
