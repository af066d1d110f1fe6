package kit_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/swarm-io/swarm-operator/kit"

	v1 "github.com/swarm-io/swarm-operator/examples/webapp/v1"
)

const finalizer = "example.swarm.io/test"

var _ = Describe("a finalizer", func() {
	var (
		o          *testOperator
		answer     atomic.Value // the Cleaner's result: a func() (kit.Cleanup, error)
		cleanups   atomic.Int64
		reconciled *names
	)
	says := func(cleanup kit.Cleanup, err error) {
		answer.Store(func() (kit.Cleanup, error) { return cleanup, err })
	}
	BeforeEach(func(ctx SpecContext) {
		o = operator([]string{createNamespace(ctx)})
		cleanups.Store(0)
		reconciled = &names{}
		o.control("k12", func(_ context.Context, app *v1.WebApp) (kit.Result, error) {
			Expect(controllerutil.ContainsFinalizer(app, finalizer)).To(BeTrue(), "it is there before the reconciler is called")
			reconciled.add(app.Name)
			return kit.Done(), nil
		}, func(b *kit.Builder[*v1.WebApp]) {
			b.Finalizer(finalizer, func(context.Context, *v1.WebApp) (kit.Cleanup, error) {
				cleanups.Add(1)
				return answer.Load().(func() (kit.Cleanup, error))()
			})
		})
		o.start()
	})
	deleted := func(ctx context.Context) *v1.WebApp {
		app := webApp(ctx, o.namespace(), "app")
		Eventually(reconciled.count).Should(BeNumerically(">=", 1))
		Expect(api.Delete(ctx, app)).To(Succeed())
		Eventually(cleanups.Load).Should(BeNumerically(">=", 1))
		return app
	}

	It("is on the object before anything else, and the object is then reconciled in the same pass", func(ctx SpecContext) {
		app := webApp(ctx, o.namespace(), "app")
		Eventually(reconciled.count).Should(Equal(1))
		Expect(getObject(ctx, app)(Default).Finalizers).To(ConsistOf(finalizer))
	})
	It("[K12/deleted-and-cleaned] Cleaned: is removed, others stay", func(ctx SpecContext) {
		says(kit.Cleaned(), nil)
		app := webApp(ctx, o.namespace(), "app")
		Eventually(reconciled.count).Should(BeNumerically(">=", 1))
		change(ctx, app, func(app *v1.WebApp) { app.Finalizers = append(app.Finalizers, "example.swarm.io/another") })
		Expect(api.Delete(ctx, app)).To(Succeed())
		Eventually(getObject(ctx, app)).Should(HaveField("Finalizers", ConsistOf("example.swarm.io/another")))
		Consistently(cleanups.Load, 300*time.Millisecond).Should(BeNumerically("==", 1), "what is not ours any more is left alone")
		change(ctx, app, func(app *v1.WebApp) { app.Finalizers = nil })
		Eventually(isDeleted(ctx, app)).Should(BeTrue())
	})
	It("[K12/cleanup-pending] Pending: stays, and is tried again after 5 seconds", func(ctx SpecContext) {
		says(kit.Pending("StillDraining"), nil)
		app := deleted(ctx)
		Eventually(sumMetric).WithArguments("swarm_reconcile_results_total", "controller=k12", "outcome=requeue_after",
			"reason=StillDraining").Should(BeNumerically(">=", 1))
		Eventually(func() []string { return o.log.lines(`"reason":"StillDraining"`, `"after":"5s"`) }).Should(HaveLen(1))
		began := time.Now()
		says(kit.Cleaned(), nil)
		Eventually(isDeleted(ctx, app)).Should(BeTrue(), "without an event")
		Expect(cleanups.Load()).To(BeNumerically("==", 2))
		AddReportEntry("tried again after", fmt.Sprintf("%.1f s", time.Since(began).Seconds()))
	})
	It("[K12/continue] Continue: stays, and the reconciler does the work", func(ctx SpecContext) {
		says(kit.Continue(), nil)
		app := deleted(ctx)
		Eventually(reconciled.count).Should(BeNumerically(">=", 2))
		Expect(getObject(ctx, app)(Default).Finalizers).To(ConsistOf(finalizer))
		says(kit.Cleaned(), nil)
		change(ctx, app, annotate("swarm.io/reconcile-at", "now"))
		Eventually(isDeleted(ctx, app)).Should(BeTrue())
	})
	It("[K12/not-ours] NotOurs: stays, nothing else happens", func(ctx SpecContext) {
		says(kit.NotOurs(), nil)
		app := deleted(ctx)
		before := reconciled.count()
		Consistently(reconciled.count, 300*time.Millisecond).Should(Equal(before))
		Expect(getObject(ctx, app)(Default).Finalizers).To(ConsistOf(finalizer))
		Expect(cleanups.Load()).To(BeNumerically("==", 1))
	})
	It("is not ours when it is not there: the object goes without being asked", func(ctx SpecContext) {
		app := &v1.WebApp{Spec: v1.WebAppSpec{Image: "example/web:1"}}
		app.Namespace, app.Name, app.Finalizers = o.namespace(), "foreign", []string{"example.swarm.io/another"}
		annotate("swarm.io/paused", "true")(app)
		Expect(api.Create(ctx, app)).To(Succeed())
		Expect(api.Delete(ctx, app)).To(Succeed())
		change(ctx, app, func(app *v1.WebApp) { delete(app.Annotations, "swarm.io/paused") })
		Eventually(sumMetric).WithArguments("swarm_reconcile_results_total", "controller=k12", "outcome=skipped",
			"reason=NotOurs").Should(BeNumerically(">=", 1))
		Expect(reconciled.count()).To(BeZero())
		Expect(cleanups.Load()).To(BeZero())
	})
	It("is tried again when the cleanup fails", func(ctx SpecContext) {
		says(kit.Cleanup{}, errors.New("no connection"))
		app := deleted(ctx)
		Eventually(cleanups.Load).Should(BeNumerically(">=", 4))
		Expect(getObject(ctx, app)(Default).Finalizers).To(ConsistOf(finalizer))
		says(kit.Cleaned(), nil)
		Eventually(isDeleted(ctx, app)).Should(BeTrue())
	})
	It("has an id of the form group/name", func(ctx SpecContext) {
		o := operator([]string{createNamespace(ctx)})
		err := kit.New[*v1.WebApp](o.Operator, "k12-id").Finalizer("finalizer", nil).Build(nil)
		Expect(err).To(MatchError(ContainSubstring(`finalizer "finalizer": not of the form group/name`)))
	})
})
