package operator

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/apiproxy"
	"github.com/swarm-io/swarm-operator/internal/testkit/audit"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

// behindProxy is the setting by which an operator reaches the API server through a proxy of its own.
func behindProxy(ctx context.Context, hook func(*http.Request) int) string {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	DeferCleanup(cancel)
	address, err := apiproxy.Start(ctx, clusterConfig, apiproxy.Options{Request: hook})
	Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := apiproxy.Kubeconfig(GinkgoT().TempDir(), address)
	Expect(err).NotTo(HaveOccurred())
	return "KUBECONFIG=" + kubeconfig
}

// failures500 answers requests about a resource with an internal error, and notes when they came.
type failures500 struct {
	path string
	off  atomic.Bool

	lock  sync.Mutex
	times []time.Time
}

func (f *failures500) hook(request *http.Request) int {
	if f.off.Load() || request.Method == http.MethodGet || !strings.HasPrefix(request.URL.Path, f.path) {
		return 0
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	f.times = append(f.times, time.Now())
	return http.StatusInternalServerError
}

// gaps are the times between failed requests.
func (f *failures500) gaps() []time.Duration {
	f.lock.Lock()
	defer f.lock.Unlock()
	var gaps []time.Duration
	for n := 1; n < len(f.times); n++ {
		gaps = append(gaps, f.times[n].Sub(f.times[n-1]))
	}
	return gaps
}

// leastWait is the least time from one failure to the next try, after this many failures: 10 ms, doubled each time.
func leastWait(failures int) time.Duration { return 10 * time.Millisecond << (failures - 1) }

var _ = Describe("The operator, when the API server", Serial, func() {
	It("[S17/growing-spacing] [S17/retries-metric] answers with internal errors, tries again ever later, and goes on when that is over", func(ctx SpecContext) {
		in, metrics := namespace(ctx, nil), ports.Free()
		broken := &failures500{path: "/apis/apps/v1/namespaces/" + in + "/statefulsets"}
		program(behindProxy(ctx, broken.hook), only(in), "SWARM_CONTROLLER_RESYNC_PERIOD=1h",
			"SWARM_METRICS_ENABLED=true", "SWARM_METRICS_SECURE=false", "SWARM_METRICS_PORT="+metrics)
		swarm := team(in, "ants", 1)
		Expect(api.Create(ctx, swarm)).To(Succeed())
		// The first tries come together with what the operator has just made. The later ones have nothing but the back-off to wait for.
		const tries, last = 8, 3
		Eventually(func() int { return len(broken.gaps()) }).WithContext(ctx).Should(BeNumerically(">=", tries), "one try after the other")
		for n, gap := range broken.gaps()[:tries] {
			if failures := n + 1; failures > tries-last {
				Expect(gap).To(BeNumerically(">=", leastWait(failures)), "after %d failures: %v", failures, broken.gaps())
			}
		}
		Expect(series(ctx, metrics, "workqueue_retries_total", `name="swarm"`)).To(BeNumerically(">=", tries))

		broken.off.Store(true)
		Eventually(gone).WithContext(ctx).WithArguments(at(&appsv1.StatefulSet{}, in, "ants-worker")).Should(BeFalse())
		Eventually(condition).WithContext(ctx).WithArguments(swarm).Should(ContainSubstring("1 have a ready pod"))
	})

	// The leader loses its Lease and nothing else: it still receives every change, and whatever it would write is accepted.
	It("[K11/operator-no-overlap, R15/controllers-by-leader] does not renew its Lease, stops writing before the other starts", func(ctx SpecContext) {
		in := namespace(ctx, nil)
		if _, err := audit.Requests(in); err != nil {
			Skip(err.Error())
		}
		var cut atomic.Bool
		settings := []string{only(in), "SWARM_CONTROLLER_LEADER_ELECTION_NAMESPACE=" + in, "SWARM_CONTROLLER_LEADER_ELECTION_LEASE_DURATION=6s"}
		start := func(name string, block *atomic.Bool) *gexec.Session {
			hook := func(request *http.Request) int {
				request.Header.Set("User-Agent", name+"-"+in)
				if block.Load() && strings.Contains(request.URL.Path, "/leases/") {
					<-request.Context().Done() // as when packets are lost
				}
				return 0
			}
			return program(append(settings, behindProxy(ctx, hook), "SWARM_LINK_PORT="+ports.Free())...)
		}
		first := start("first", &cut)
		Eventually(first.Err).Should(gbytes.Say("Successfully acquired lease"))
		second := start("second", &atomic.Bool{})
		Eventually(second.Err).Should(gbytes.Say("caches synced"))
		Expect(api.Create(ctx, team(in, "ants", 1))).To(Succeed())
		disturb(ctx, at(&corev1.ConfigMap{}, in, "ants-config"))
		Eventually(writesOf).WithArguments("first-" + in).ShouldNot(BeEmpty())

		cut.Store(true)
		parted := time.Now()
		Eventually(writesOf).WithArguments("first-"+in).Should(ContainElement(HaveField("Received", BeTemporally(">", parted))), "it can still write")
		Expect(writesOf("second-" + in)).To(BeEmpty())
		Eventually(first).Should(gexec.Exit(1))
		Eventually(writesOf).WithArguments("second-" + in).ShouldNot(BeEmpty())
		next := writesOf("second-" + in)[0]
		Expect(writesOf("first-"+in)).To(HaveEach(HaveField("Answered", BeTemporally("<", next.Received))), "the first write of the other: %v", next)
	})
})

// disturb keeps changing an object that the operator puts right again, so that a leader always has something to write.
func disturb(ctx context.Context, config *corev1.ConfigMap) {
	GinkgoHelper()
	Eventually(gone).WithContext(ctx).WithArguments(config).Should(BeFalse())
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = api.Patch(ctx, config.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"data":{"swarm.json":"{}"}}`)))
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	DeferCleanup(func() {
		cancel()
		<-done
	})
}

// writesOf are the requests of a client that change something, as the API server has seen them.
func writesOf(userAgent string) []audit.Request {
	GinkgoHelper()
	all, err := audit.Requests(userAgent)
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(all, func(one audit.Request) bool { return !one.IsWrite() })
}
