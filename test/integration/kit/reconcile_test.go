package kit_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/kit"

	v1 "github.com/swarm-io/swarm-operator/examples/webapp/v1"
)

var _ = It("[K01] a kind has one controller, whose name is the label of its metrics", func(ctx SpecContext) {
	o := operator([]string{createNamespace(ctx)})
	nothing := func(context.Context, *v1.WebApp) (kit.Result, error) { return kit.Done(), nil }
	o.control("k01", nothing)
	err := kit.New[*v1.WebApp](o.Operator, "k01-again").Build(kit.Func[*v1.WebApp](nothing))
	Expect(err).To(MatchError(ContainSubstring(`kind WebApp has a controller already, "k01"`)))

	o.start()
	webApp(ctx, o.namespace(), "a")
	Eventually(sumMetric).WithArguments("swarm_reconcile_results_total", "controller=k01", "outcome=done").Should(BeNumerically("==", 1))
	Expect(sumMetric("controller_runtime_reconcile_total", "controller=k01")).To(BeNumerically("==", 1))
})

var _ = It("[K06/event-in-flight, K06/last-state] an event during a reconcile is not lost, and a hundred cost one more",
	func(ctx SpecContext) {
		const updates = 100
		o := operator([]string{createNamespace(ctx)})
		entered, proceed, arrived := make(chan struct{}), make(chan struct{}), make(chan struct{})
		var reconciles, last atomic.Int64
		o.control("k06", func(_ context.Context, app *v1.WebApp) (kit.Result, error) {
			if app.Name == "after" {
				close(arrived)
				return kit.Done(), nil
			}
			if reconciles.Add(1) == 1 {
				close(entered)
				<-proceed
			}
			last.Store(int64(app.Spec.Port))
			return kit.Done(), nil
		}, func(b *kit.Builder[*v1.WebApp]) { b.Concurrency(2) })
		o.start()
		app := webApp(ctx, o.namespace(), "busy")
		Eventually(entered).Should(BeClosed())
		for i := range updates {
			app.Spec.Port = int32(1000 + i)
			Expect(api.Update(ctx, app)).To(Succeed())
		}
		webApp(ctx, o.namespace(), "after")
		Eventually(arrived).Should(BeClosed(), "events come in order: those of the updates have arrived, too")
		close(proceed)
		Eventually(last.Load).Should(BeNumerically("==", 1000+updates-1), "the last state is seen")
		Consistently(reconciles.Load, 500*time.Millisecond).Should(BeNumerically("==", 2))
	})

var _ = It("[K06/last-state] a hundred updates while others work: one object is never reconciled twice at once", func(ctx SpecContext) {
	o := operator([]string{createNamespace(ctx)})
	var lock sync.Mutex
	running, last, twice := map[string]bool{}, int32(0), false
	o.control("k06-once", func(_ context.Context, app *v1.WebApp) (kit.Result, error) {
		lock.Lock()
		twice = twice || running[app.Name]
		running[app.Name] = true
		lock.Unlock()
		time.Sleep(5 * time.Millisecond) // a reconcile takes its time
		lock.Lock()
		defer lock.Unlock()
		running[app.Name], last = false, app.Spec.Port
		return kit.Done(), nil
	}, func(b *kit.Builder[*v1.WebApp]) { b.Concurrency(4) })
	o.start()
	app := webApp(ctx, o.namespace(), "busy")
	for i := range 100 {
		app.Spec.Port = int32(2000 + i)
		Expect(api.Update(ctx, app)).To(Succeed())
	}
	Eventually(func() int32 { lock.Lock(); defer lock.Unlock(); return last }).Should(BeEquivalentTo(2099))
	Expect(twice).To(BeFalse())
})

var _ = It("[K07/reason-in-log, K07/reason-in-metric] results carry their reason into the log and the metric", func(ctx SpecContext) {
	o := operator([]string{createNamespace(ctx)})
	var step atomic.Int64
	o.control("k07", func(_ context.Context, app *v1.WebApp) (kit.Result, error) {
		switch step.Add(1) {
		case 1:
			return kit.Requeue("FirstLook"), nil
		case 2:
			return kit.RequeueAfter(50*time.Millisecond, "SecondLook"), nil
		case 3:
			return kit.Requeue("waiting for " + app.Name), nil
		}
		return kit.Done(), nil
	})
	o.start()
	webApp(ctx, o.namespace(), "secret-name")
	Eventually(sumMetric).WithArguments("swarm_reconcile_results_total", "controller=k07", "outcome=done").Should(BeNumerically("==", 1))
	for _, labels := range [][]string{{"outcome=requeue", "reason=FirstLook"}, {"outcome=requeue_after", "reason=SecondLook"},
		{"outcome=requeue", "reason=Other"}} {
		Expect(sumMetric("swarm_reconcile_results_total", append(labels, "controller=k07")...)).To(BeNumerically("==", 1), "%v", labels)
	}
	Expect(o.log.lines(`"level":"DEBUG`, `"reconciled"`, `"reason":"SecondLook"`, `"reconcileID"`)).To(HaveLen(1))
	Expect(o.log.lines(`"reason":"waiting for secret-name"`)).To(HaveLen(1), "the log has the reason as it was given")
})

var _ = It("[O24/reconcile-at] an error that needs a human is not tried again until the object changes", func(ctx SpecContext) {
	o := operator([]string{createNamespace(ctx)})
	var reconciles atomic.Int64
	o.control("k07-terminal", func(context.Context, *v1.WebApp) (kit.Result, error) {
		reconciles.Add(1)
		return kit.Done(), kit.Terminal(errors.New("no such image"))
	})
	o.start()
	app := webApp(ctx, o.namespace(), "hopeless")
	Eventually(sumMetric).WithArguments("swarm_reconcile_results_total", "controller=k07-terminal",
		"outcome=terminal").Should(BeNumerically("==", 1))
	Consistently(reconciles.Load, 500*time.Millisecond).Should(BeNumerically("==", 1))
	change(ctx, app, annotate("swarm.io/reconcile-at", "now"))
	Eventually(reconciles.Load).Should(BeNumerically("==", 2))
})

var _ = It("a conflict is silence: tried again, no error in the log", func(ctx SpecContext) {
	o := operator([]string{createNamespace(ctx)})
	status := kit.NewStatus[*v1.WebApp](o.Operator, "k07-conflict")
	var reconciles atomic.Int64
	o.control("k07-conflict", func(ctx context.Context, app *v1.WebApp) (kit.Result, error) {
		report := status.Report(app, &app.Status.Conditions)
		app.Status.URL = strconv.FormatInt(reconciles.Add(1), 10)
		if reconciles.Load() == 1 { // another writer is faster
			other := &v1.WebApp{}
			Expect(api.Get(ctx, client.ObjectKeyFromObject(app), other)).To(Succeed())
			other.Labels = map[string]string{"faster": "yes"}
			Expect(api.Update(ctx, other)).To(Succeed())
		}
		return kit.Done(), report.Write(ctx)
	})
	o.start()
	app := webApp(ctx, o.namespace(), "contended")
	Eventually(getObject(ctx, app)).Should(HaveField("Status.URL", Not(BeEmpty())))
	Expect(sumMetric("swarm_reconcile_results_total", "controller=k07-conflict", "outcome=conflict")).To(BeNumerically(">=", 1))
	Expect(o.log.lines(`"level":"ERROR"`)).To(BeEmpty())
})

var _ = It("[K08/growing-spacing, K08/reset-on-success] errors are retried with growing delays, which a success resets",
	func(ctx SpecContext) {
		o := operator([]string{createNamespace(ctx)})
		var lock sync.Mutex
		var at []time.Time
		failing := atomic.Bool{}
		failing.Store(true)
		o.control("k08", func(context.Context, *v1.WebApp) (kit.Result, error) {
			lock.Lock()
			defer lock.Unlock()
			at = append(at, time.Now())
			if failing.Load() {
				return kit.Done(), errors.New("not yet")
			}
			return kit.Done(), nil
		})
		attempts := func() int { lock.Lock(); defer lock.Unlock(); return len(at) }
		gap := func(n int) time.Duration { lock.Lock(); defer lock.Unlock(); return at[n].Sub(at[n-1]) }
		o.start()
		app := webApp(ctx, o.namespace(), "stubborn")
		Eventually(attempts).Should(BeNumerically(">=", 8))
		for n := 1; n < 8; n++ {
			Expect(gap(n)).To(BeNumerically(">=", leastWait(n)), "wait %d", n)
		}
		Expect(sumMetric("workqueue_retries_total", "name=k08")).To(BeNumerically(">=", 7))

		done := func() float64 { return sumMetric("swarm_reconcile_results_total", "controller=k08", "outcome=done") }
		// A busy machine may add to a wait. Without a reset none would be shorter than the next one of the series.
		Eventually(func() time.Duration {
			finished := done()
			failing.Store(false)
			Eventually(done).Should(BeNumerically(">", finished))
			failing.Store(true)
			before := attempts()
			change(ctx, app, func(app *v1.WebApp) { app.Spec.Port++ })
			Eventually(attempts).Should(BeNumerically(">=", before+2))
			return gap(before + 1)
		}).Should(BeNumerically("<", leastWait(8)), "the back-off began anew")
		failing.Store(false)
	})

// leastWait is the least time from one failure to the next attempt, after this many failures: 10 ms, doubled each time.
func leastWait(failures int) time.Duration { return 10 * time.Millisecond << (failures - 1) }

var _ = It("[K16/process-lives, K16/metric] a panic is caught, counted and tried again, and the others go on", func(ctx SpecContext) {
	o := operator([]string{createNamespace(ctx)})
	var calm atomic.Bool
	var seen sync.Map
	o.control("k16", func(_ context.Context, app *v1.WebApp) (kit.Result, error) {
		if app.Name == "odd" && !calm.Load() {
			panic("an odd object")
		}
		seen.Store(app.Name, true)
		return kit.Done(), nil
	})
	o.start()
	webApp(ctx, o.namespace(), "odd")
	Eventually(sumMetric).WithArguments("swarm_reconcile_panics_total", "controller=k16").Should(BeNumerically(">=", 3))
	webApp(ctx, o.namespace(), "even")
	Eventually(func() bool { _, ok := seen.Load("even"); return ok }).Should(BeTrue())
	Expect(o.log.lines("panic: an odd object", "reconcile_test.go")).NotTo(BeEmpty(), "the log says where")
	calm.Store(true)
	Eventually(func() bool { _, ok := seen.Load("odd"); return ok }).Should(BeTrue())
	Expect(o.done).NotTo(Receive())
})

var _ = It("[O24/paused] what is paused is left alone, whatever happens to it, and taken up when the pause ends", func(ctx SpecContext) {
	o := operator([]string{createNamespace(ctx)})
	var reconciles atomic.Int64
	o.control("paused", func(context.Context, *v1.WebApp) (kit.Result, error) {
		reconciles.Add(1)
		return kit.Done(), nil
	}, func(b *kit.Builder[*v1.WebApp]) {
		b.Finalizer("example.swarm.io/test", func(context.Context, *v1.WebApp) (kit.Cleanup, error) { return kit.Cleaned(), nil }).
			ResyncPeriod(100 * time.Millisecond)
	})
	app := &v1.WebApp{Spec: v1.WebAppSpec{Image: "example/web:1"}}
	app.Namespace, app.Name = o.namespace(), "paused"
	annotate("swarm.io/paused", "true")(app)
	Expect(api.Create(ctx, app)).To(Succeed())
	o.start()
	Eventually(sumMetric).WithArguments("swarm_reconcile_results_total", "controller=paused", "outcome=skipped",
		"reason=Paused").Should(BeNumerically(">=", 1))
	change(ctx, app, func(app *v1.WebApp) { app.Spec.Port = 99 })
	Eventually(sumMetric).WithArguments("swarm_reconcile_results_total", "controller=paused", "outcome=skipped",
		"reason=Paused").Should(BeNumerically(">=", 2))
	Expect(reconciles.Load()).To(BeZero())
	Expect(getObject(ctx, app)(Default)).To(HaveField("Finalizers", BeEmpty()), "not even the finalizer was written")

	change(ctx, app, func(app *v1.WebApp) { delete(app.Annotations, "swarm.io/paused") })
	Eventually(reconciles.Load).Should(BeNumerically(">=", 3), "and the resync goes on by itself")
	Expect(getObject(ctx, app)(Default).Finalizers).To(ConsistOf("example.swarm.io/test"))
})

var _ = Describe("a controller hears of", func() {
	var reconciled *names
	BeforeEach(func() { reconciled = &names{} })
	note := func(_ context.Context, app *v1.WebApp) (kit.Result, error) { //nolint:unparam // the signature is Reconcile's
		reconciled.add(app.Name)
		return kit.Done(), nil
	}

	It("[K09/owns] what it owns", func(ctx SpecContext) {
		o := operator([]string{createNamespace(ctx)})
		o.control("k09-owns", note, func(b *kit.Builder[*v1.WebApp]) { b.Owns(&corev1.ConfigMap{}) })
		o.start()
		app := webApp(ctx, o.namespace(), "owner")
		Eventually(reconciled.count).Should(Equal(1))
		reference := *metav1.NewControllerRef(app, v1.GroupVersion.WithKind("WebApp"))
		child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "child",
			OwnerReferences: []metav1.OwnerReference{reference}}}
		Expect(api.Create(ctx, child)).To(Succeed())
		Eventually(reconciled.count).Should(Equal(2))
		change(ctx, child, func(child *corev1.ConfigMap) { child.Data = map[string]string{"a": "b"} })
		Eventually(reconciled.count).Should(Equal(3))
		Expect(api.Delete(ctx, child)).To(Succeed())
		Eventually(reconciled.count).Should(Equal(4))
	})

	It("[K09/watches] what it watches, by the mapper", func(ctx SpecContext) {
		o := operator([]string{createNamespace(ctx)})
		o.control("k09-watches", note, func(b *kit.Builder[*v1.WebApp]) {
			b.Watches(&corev1.ConfigMap{}, func(_ context.Context, object client.Object) []client.ObjectKey {
				return []client.ObjectKey{{Namespace: object.GetNamespace(), Name: object.GetLabels()["for"]}}
			})
		})
		o.start()
		webApp(ctx, o.namespace(), "a")
		webApp(ctx, o.namespace(), "b")
		Eventually(reconciled.count).Should(Equal(2))
		Expect(api.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: o.namespace(), Name: "settings", Labels: map[string]string{"for": "b"}}})).To(Succeed())
		Eventually(reconciled.list).Should(HaveLen(3))
		Expect(reconciled.list()[2]).To(Equal("b"))
	})

	It("its own object, but not of a status that merely changed", func(ctx SpecContext) {
		o := operator([]string{createNamespace(ctx)})
		o.control("k09-status", note)
		o.start()
		app := webApp(ctx, o.namespace(), "a")
		Eventually(reconciled.count).Should(Equal(1))
		for i := range 3 {
			app.Status.URL = fmt.Sprint("http://", i)
			Expect(api.Status().Update(ctx, app)).To(Succeed())
		}
		Consistently(reconciled.count, 300*time.Millisecond).Should(Equal(1))
		change(ctx, app, func(app *v1.WebApp) { app.Labels = map[string]string{"a": "b"} })
		Eventually(reconciled.count).Should(Equal(2))
	})
})

// names are the names of reconciled objects, in order.
type names struct {
	lock sync.Mutex
	all  []string
}

func (n *names) add(name string) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.all = append(n.all, name)
}

func (n *names) list() []string {
	n.lock.Lock()
	defer n.lock.Unlock()
	return append([]string(nil), n.all...)
}

func (n *names) count() int { return len(n.list()) }
