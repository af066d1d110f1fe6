package kit_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/certs"
	"github.com/swarm-io/swarm-operator/kit"

	v1 "github.com/swarm-io/swarm-operator/examples/webapp/v1"
)

// A cuttableTransport is a connection to the API server that can be cut: requests hang, as they do when packets are lost.
type cuttableTransport struct {
	inner http.RoundTripper
	isCut *atomic.Bool
}

func (w cuttableTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if w.isCut.Load() {
		<-request.Context().Done()
		return nil, request.Context().Err()
	}
	return w.inner.RoundTrip(request)
}

// newContender is an operator that competes for a Lease of 6 s, and notes its gains and losses of it.
func newContender(namespace, name string, history *names, cut *atomic.Bool) *testOperator {
	return operator([]string{namespace}, func(options *kit.Options, config *rest.Config) {
		options.Election = kit.Election{
			Namespace: namespace, Name: "kit", Identity: name, LeaseDuration: 6 * time.Second,
			OnStarted: func(context.Context) { history.add(name + " started") },
			OnStopped: func() { history.add(name + " stopped") },
		}
		config.UserAgent = name + "/" + namespace
		config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return cuttableTransport{inner, cut} })
	})
}

var _ = It("[K10/callbacks, K11/no-overlap] a leader that is parted from the API server stops before the other starts",
	func(ctx SpecContext) {
		namespace, history := createNamespace(ctx), &names{}
		var cut, never atomic.Bool
		var lock sync.Mutex
		last := map[string]time.Time{}
		first := map[string]time.Time{}
		act := func(o *testOperator, name string) {
			o.control(name, func(ctx context.Context, app *v1.WebApp) (kit.Result, error) {
				annotate("written-by", fmt.Sprint(name, time.Now().UnixNano()))(app)
				err := o.GetClient().Update(ctx, app)
				lock.Lock()
				defer lock.Unlock()
				if err == nil {
					last[name] = time.Now()
					if first[name].IsZero() {
						first[name] = time.Now()
					}
				}
				return kit.RequeueAfter(20*time.Millisecond, "Again"), err
			})
		}
		a, b := newContender(namespace, "k11-a", history, &cut), newContender(namespace, "k11-b", history, &never)
		act(a, "k11-a")
		act(b, "k11-b")
		a.start()
		Eventually(history.list).Should(Equal([]string{"k11-a started"}))
		b.start()
		webApp(ctx, namespace, "app")
		acted := func(name string) func() bool {
			return func() bool { lock.Lock(); defer lock.Unlock(); return !first[name].IsZero() }
		}
		Eventually(acted("k11-a")).Should(BeTrue())
		Eventually(func() error {
			return b.GetClient().Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"}})
		}).
			Should(MatchError(kit.ErrNotLeading), "a standby cannot write")

		cut.Store(true)
		Eventually(a.done).Should(Receive(MatchError(kit.ErrNotLeading)), "the program ends")
		Expect(a.GetClient().Delete(ctx, &v1.WebApp{})).To(MatchError(kit.ErrNotLeading))
		Eventually(acted("k11-b")).Should(BeTrue())
		Expect(history.list()).To(Equal([]string{"k11-a started", "k11-a stopped", "k11-b started"}))
		lock.Lock()
		defer lock.Unlock()
		Expect(last["k11-a"]).To(BeTemporally("<", first["k11-b"]))
		AddReportEntry("silence", fmt.Sprintf("%s between the last write of the old and the first of the new",
			first["k11-b"].Sub(last["k11-a"]).Round(10*time.Millisecond)))
	})

var _ = It("the term grows with every start, elected or not, and never falls behind what was seen elsewhere", func(ctx SpecContext) {
	namespace := createNamespace(ctx)
	start := func() *testOperator { return operator([]string{namespace}).startLeading() }
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kit"}}
	first := start()
	Expect(first.Leadership.Term()).To(BeEquivalentTo(1))
	first.shutDown()
	Eventually(getObject(ctx, lease)).Should(HaveField("Spec.HolderIdentity", HaveValue(BeEmpty())), "released")

	second := start()
	Expect(second.Leadership.Term()).To(BeEquivalentTo(2))
	third := start() // without leader election a replica does not wait, and the former holder ends
	Expect(third.Leadership.Term()).To(BeEquivalentTo(3))
	Eventually(second.done).Should(Receive(HaveOccurred()))
	Expect(second.Leadership.Fresh()).To(BeFalse())

	By("deleting the Lease, without a memory of terms")
	third.shutDown()
	Expect(client.IgnoreNotFound(api.Delete(ctx, lease))).To(Succeed())
	fourth := start()
	Expect(fourth.Leadership.Term()).To(BeEquivalentTo(1))
	Expect(fourth.Leadership.RaiseTerm(3)).To(BeEquivalentTo(4))
	Eventually(getObject(ctx, lease)).Should(HaveField("Spec.LeaseTransitions", HaveValue(BeEquivalentTo(4))))
	fourth.shutDown()
	Expect(start().Leadership.Term()).To(BeEquivalentTo(5))
})

var _ = It("terms grow when the Lease is deleted, and a Lease is not released while a former leader may act", func(ctx SpecContext) {
	namespace := createNamespace(ctx)
	terms, err := certs.NewTerms(apiServer, namespace)
	Expect(err).NotTo(HaveOccurred())
	start := func() *testOperator {
		return operator([]string{namespace}, func(options *kit.Options, _ *rest.Config) { options.Election.Terms = terms }).startLeading()
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kit"}}
	first := start()
	Expect(first.Leadership.Term()).To(BeEquivalentTo(1))

	By("deleting the Lease of a leader, which makes it again")
	Expect(api.Delete(ctx, lease)).To(Succeed())
	Eventually(getObject(ctx, lease)).Should(And(
		HaveField("Spec.HolderIdentity", HaveValue(Equal(first.Leadership.Identity()))),
		HaveField("Spec.LeaseTransitions", HaveValue(BeEquivalentTo(1)))))
	Expect(first.Leadership.Fresh()).To(BeTrue())
	first.shutDown()
	Expect(getObject(ctx, lease)(Default)).To(HaveField("Spec.HolderIdentity", HaveValue(BeEmpty())),
		"released: no other process has led before")

	By("deleting the Lease between two leaders")
	Expect(api.Delete(ctx, lease)).To(Succeed())
	second := start()
	Expect(second.Leadership.Term()).To(BeEquivalentTo(2))
	Expect(getObject(ctx, lease)(Default)).To(HaveField("Spec.LeaseTransitions", HaveValue(BeEquivalentTo(2))))
	second.shutDown()
	Expect(getObject(ctx, lease)(Default)).To(HaveField("Spec.HolderIdentity", HaveValue(Equal(second.Leadership.Identity()))), "not released")
	Expect(second.log.String()).To(And(ContainSubstring("not releasing the lease"), Not(ContainSubstring("Failed to release"))))
	Expect(start().Leadership.Term()).To(BeEquivalentTo(3))
})

var _ = It("[K19/lease] the Lease says who leads, since when, and for how long", func(ctx SpecContext) {
	namespace := createNamespace(ctx)
	run(namespace, "webapp-lease")
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "webapp"}}
	Eventually(holder(ctx, namespace)).Should(Equal("webapp-lease"))
	Expect(getObject(ctx, lease)(Default).Spec.LeaseDurationSeconds).To(HaveValue(BeEquivalentTo(12)))
	renewed := lease.Spec.RenewTime.Time
	Eventually(func(g Gomega) time.Time { return getObject(ctx, lease)(g).Spec.RenewTime.Time }).Should(BeTemporally(">", renewed))
})
