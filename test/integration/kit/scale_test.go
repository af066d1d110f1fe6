package kit_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
	"github.com/swarm-io/swarm-operator/kit"

	v1 "github.com/swarm-io/swarm-operator/examples/webapp/v1"
)

const many = 10_000

var _ = Describe("with 10,000 objects", Ordered, func() {
	var (
		namespace string
		owners    = make([]types.UID, 100)
	)
	BeforeAll(func(ctx SpecContext) {
		namespace = createNamespace(ctx)
		for i := range owners {
			owners[i] = webApp(ctx, namespace, fmt.Sprint("owner-", i)).UID // the garbage collector would delete dependents of one that does not exist
		}
		numbers := make(chan int)
		var workers sync.WaitGroup
		for range 16 {
			workers.Go(func() {
				defer GinkgoRecover()
				for i := range numbers {
					owner := metav1.OwnerReference{
						APIVersion: v1.GroupVersion.String(), Kind: "WebApp", Name: fmt.Sprint("owner-", i%len(owners)), UID: owners[i%len(owners)],
						Controller: new(true)}
					Expect(api.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
						Namespace: namespace, Name: fmt.Sprintf("c-%05d", i), OwnerReferences: []metav1.OwnerReference{owner}}})).To(Succeed())
				}
			})
		}
		for i := range many {
			numbers <- i
		}
		close(numbers)
		workers.Wait()
	})

	It("[K03/bounded-concurrency, K03/bounded-queue] no more than 4 are reconciled at once, and the queue holds each object once",
		func(ctx SpecContext) {
			o := operator([]string{namespace})
			var running, most, total atomic.Int64
			var seen sync.Map
			var distinct atomic.Int64
			var deepest float64
			err := kit.New[*corev1.ConfigMap](o.Operator, "k03").Concurrency(4).Build(kit.Func[*corev1.ConfigMap](
				func(_ context.Context, object *corev1.ConfigMap) (kit.Result, error) {
					now := running.Add(1)
					defer running.Add(-1)
					for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
					}
					if _, known := seen.LoadOrStore(object.Name, true); !known {
						distinct.Add(1)
					}
					total.Add(1)
					time.Sleep(200 * time.Microsecond) // let them overlap if they can
					return kit.Done(), nil
				}))
			Expect(err).NotTo(HaveOccurred())
			o.start()
			By("touching some of them again and again meanwhile")
			Eventually(total.Load).Should(BeNumerically(">", 0))
			for i := range 500 {
				object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("c-%05d", i%50)}}
				Expect(api.Patch(ctx, object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{"n":"%d"}}`, i)))).To(Succeed())
				if i%10 == 0 {
					deepest = max(deepest, sumMetric("workqueue_depth", "name=k03"))
				}
			}
			Eventually(distinct.Load).WithTimeout(time.Minute).Should(BeNumerically(">=", many))
			Eventually(sumMetric).WithArguments("workqueue_depth", "name=k03").Should(BeZero())
			AddReportEntry("reconciles", fmt.Sprintf("%d of %d objects, %d at once at most, queue at most %.0f deep", total.Load(), distinct.Load(),
				most.Load(), deepest))
			Expect(most.Load()).To(BeNumerically("==", 4), "all four work, and never five")
			Expect(deepest).To(BeNumerically("<=", many+100))
			Expect(total.Load()).To(BeNumerically("<=", many+500+100))
		})

	It("[K05/index-used, K05/benchmark] the owner index finds an owner's objects without a search", func(ctx SpecContext) {
		o := operator([]string{namespace})
		Expect(kit.IndexOwner(ctx, o, &corev1.ConfigMap{})).To(Succeed())
		o.start()
		Eventually(o.Leadership.Fresh).Should(BeTrue())
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owner", UID: owners[7]}}
		found, every := &corev1.ConfigMapList{}, &corev1.ConfigMapList{}
		Expect(kit.ListOwned(ctx, o.GetClient(), owner, found)).To(Succeed())
		Expect(found.Items).To(HaveLen(many / len(owners)))
		for _, item := range found.Items {
			Expect(item.OwnerReferences[0].UID).To(Equal(owners[7]))
		}

		const times = 20
		byIndex, indexed := measure(times, func() { Expect(kit.ListOwned(ctx, o.GetClient(), owner, found)).To(Succeed()) })
		bySearch, searched := measure(times, func() { Expect(o.GetClient().List(ctx, every, client.InNamespace(namespace))).To(Succeed()) })
		AddReportEntry("owned by", fmt.Sprintf("%s and %d allocations by index, %s and %d by search", byIndex, indexed, bySearch, searched))
		Expect(indexed).To(BeNumerically("<", searched/20), "it copies a hundredth of the objects")
	})
})

// measure returns how long some work takes, and how many allocations it makes, which does not depend on how busy the machine is.
func measure(times int, work func()) (time.Duration, uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	for range times {
		work()
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	return took / time.Duration(times), (after.Mallocs - before.Mallocs) / uint64(times)
}

var _ = It("[K04] a reconcile reads from the cache: 500 of them cost no request, and there is one watch per kind", func(ctx SpecContext) {
	testcluster.AuditLog()
	namespace := createNamespace(ctx)
	agent := "k04/" + namespace
	o := operator([]string{namespace}, func(_ *kit.Options, config *rest.Config) { config.UserAgent = agent })
	status := kit.NewStatus[*v1.WebApp](o.Operator, "k04")
	Expect(kit.IndexOwner(ctx, o, &corev1.ConfigMap{})).To(Succeed())
	var reconciles atomic.Int64
	o.control("k04", func(ctx context.Context, app *v1.WebApp) (kit.Result, error) {
		reconciles.Add(1)
		owned, other := &corev1.ConfigMapList{}, &v1.WebApp{}
		if err := kit.ListOwned(ctx, o.GetClient(), app, owned); err != nil {
			return kit.Done(), err
		}
		if err := o.GetClient().Get(ctx, client.ObjectKeyFromObject(app), other); err != nil {
			return kit.Done(), err
		}
		report := status.Report(app, &app.Status.Conditions)
		report.Normal(readyConditionOf(metav1.ConditionTrue, "Fine", ""))
		return kit.Done(), report.Write(ctx)
	}, func(b *kit.Builder[*v1.WebApp]) { b.Owns(&corev1.ConfigMap{}).ResyncPeriod(100 * time.Millisecond) })
	o.start()
	for i := range 50 {
		webApp(ctx, namespace, fmt.Sprint("app-", i))
	}
	Eventually(func(g Gomega) {
		every := &v1.WebAppList{}
		g.Expect(o.GetClient().List(ctx, every)).To(Succeed())
		g.Expect(every.Items).To(And(HaveLen(50), HaveEach(HaveField("Status.Conditions", HaveLen(1)))),
			"all are reported, and the cache has seen it")
	}).Should(Succeed())
	steady, before := time.Now(), reconciles.Load()
	Eventually(reconciles.Load).Should(BeNumerically(">=", before+500))
	for _, request := range auditRequests(agent, steady) {
		Expect(request.Object.Resource).To(Or(Equal("leases"), Equal("events")), "%v", request)
	}
	watches := map[string]int{}
	for _, request := range auditRequests(agent, time.Time{}) {
		if request.Verb == "list" || request.Verb == "watch" && containsAll(request.URI, "sendInitialEvents=true") {
			watches[request.Object.Resource]++
		}
	}
	Expect(watches).To(HaveKeyWithValue("webapps", BeNumerically("<=", 1)))
	Expect(watches).To(HaveKeyWithValue("configmaps", BeNumerically("<=", 1)))
})
