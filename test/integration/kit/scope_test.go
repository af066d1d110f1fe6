package kit_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/swarm-io/swarm-operator/kit"

	v1 "github.com/swarm-io/swarm-operator/examples/webapp/v1"
)

var _ = It("[K09/namespace-scoped] namespaces come into scope and leave it at run time, by their labels and by another selector",
	func(ctx SpecContext) {
		within, outside := createNamespace(ctx, "team", "a"), createNamespace(ctx, "team", "b")
		o := operator([]string{within, outside})
		reconciled := &names{}
		scope := kit.NewScope(labels.SelectorFromSet(labels.Set{"team": "a"}))
		o.control("k09-scope", func(_ context.Context, app *v1.WebApp) (kit.Result, error) {
			reconciled.add(app.Name)
			return kit.Done(), nil
		}, func(b *kit.Builder[*v1.WebApp]) { b.Namespaces(scope) })
		o.start()
		first, second := webApp(ctx, within, "first"), webApp(ctx, outside, "second")
		Eventually(reconciled.list).Should(ContainElement("first"))
		Eventually(sumMetric).WithArguments("swarm_reconcile_results_total", "controller=k09-scope",
			"reason=OutOfScope").Should(BeNumerically(">=", 1))
		Expect(reconciled.list()).NotTo(ContainElement("second"))

		By("a label brings the second in")
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: outside}}
		change(ctx, namespace, func(namespace *corev1.Namespace) { namespace.Labels["team"] = "a" })
		Eventually(reconciled.list).Should(ContainElement("second"))

		By("and takes it out again")
		change(ctx, namespace, func(namespace *corev1.Namespace) { namespace.Labels["team"] = "b" })
		Eventually(func() int {
			before := reconciled.count()
			change(ctx, second, annotate("touched", second.ResourceVersion))
			change(ctx, first, annotate("touched", first.ResourceVersion))
			Eventually(reconciled.count).Should(BeNumerically(">", before))
			return len(withName(reconciled.list()[before:], "second"))
		}).Should(BeZero())

		By("another selector takes the first out and the second in")
		before := reconciled.count()
		scope.SetSelector(labels.SelectorFromSet(labels.Set{"team": "b"}))
		Eventually(func() []string { return reconciled.list()[before:] }).Should(ContainElement("second"))
		Expect(withName(reconciled.list()[before:], "first")).To(BeEmpty())
	})

func withName(all []string, name string) []string {
	var result []string
	for _, one := range all {
		if one == name {
			result = append(result, one)
		}
	}
	return result
}

var _ = It("an operator that may not read namespaces learns that one is being deleted, and does not keep a paused object there",
	func(ctx SpecContext) {
		own, going := createNamespace(ctx), createNamespace(ctx)
		o := operator([]string{own, going})
		o.control("scope-of-names", func(context.Context, *v1.WebApp) (kit.Result, error) { return kit.Done(), nil },
			func(b *kit.Builder[*v1.WebApp]) {
				b.Namespaces(kit.NewNamedScope(own, going)).Finalizer(finalizer,
					func(context.Context, *v1.WebApp) (kit.Cleanup, error) { return kit.Pending("Draining"), nil })
			})
		o.start()
		app := webApp(ctx, going, "app")
		Eventually(getObject(ctx, app)).Should(HaveField("Finalizers", ConsistOf(finalizer)))
		change(ctx, app, annotate("swarm.io/paused", "true"))
		Expect(api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: going}})).To(Succeed())
		Eventually(isDeleted(ctx, app)).Should(BeTrue())
	})
