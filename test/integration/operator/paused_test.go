package operator

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

var _ = Describe("A Swarm that is paused by its annotation", Serial, func() {
	It("[O24/paused] gives nothing out until that is removed, under this leader and under the next", func(ctx SpecContext) {
		ns := namespace(ctx, nil)
		runAgents(ctx, ns)
		session := startOperator(linkAddress)
		swarm := newTeam(ns, "ants", 1)
		Expect(api.Create(ctx, swarm)).To(Succeed())
		submit(ctx, swarm, "before", taskOrder{})
		Eventually(phaseOf(ns, "before")).WithContext(ctx).Should(Equal(v1alpha1.TaskCompleted))

		change(ctx, swarm, func() { swarm.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"} })
		waiting := submitUntilPaused(ctx, swarm)

		Eventually(session.Terminate()).Should(gexec.Exit(0))
		startOperator(linkAddress)
		submit(ctx, swarm, "later", taskOrder{})
		Eventually(reasonOf(ns, "later")).WithContext(ctx).Should(Equal(v1alpha1.ReasonPaused))
		Expect(phaseOf(ns, waiting)(ctx)).To(Equal(v1alpha1.TaskPending))

		change(ctx, swarm, func() { delete(swarm.Annotations, v1alpha1.AnnotationPaused) })
		for _, task := range []string{waiting, "later"} {
			Eventually(phaseOf(ns, task)).WithContext(ctx).Should(Equal(v1alpha1.TaskCompleted))
		}
	})
})

// submitUntilPaused submits tasks until one is held back, and returns its name. The operator may hear of a task before it hears of the
// pause.
func submitUntilPaused(ctx context.Context, swarm *v1alpha1.Swarm) (name string) {
	GinkgoHelper()
	n := 0
	Eventually(func(g Gomega) {
		n++
		name = fmt.Sprint("waiting-", n)
		submit(ctx, swarm, name, taskOrder{})
		g.Eventually(reasonOf(swarm.Namespace, name)).WithContext(ctx).ShouldNot(BeEmpty())
		g.Expect(reasonOf(swarm.Namespace, name)(ctx)).To(Equal(v1alpha1.ReasonPaused))
	}).WithContext(ctx).Should(Succeed())
	return name
}

// reasonOf is for Eventually.
func reasonOf(ns, task string) func(context.Context) (v1alpha1.Reason, error) {
	return func(ctx context.Context) (v1alpha1.Reason, error) {
		found := &v1alpha1.Task{}
		err := api.Get(ctx, client.ObjectKey{Namespace: ns, Name: task}, found)
		return v1alpha1.Reason(found.Status.Reason), err
	}
}
