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

// proxyKubeconfigSetting is the setting by which an operator reaches the API server through a proxy of its own.
func proxyKubeconfigSetting(ctx context.Context, hook func(*http.Request) int) string {
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
	path     string
	disabled atomic.Bool

	lock  sync.Mutex
	times []time.Time
}

func (f *failures500) hook(request *http.Request) int {
	if f.disabled.Load() || request.Method == http.MethodGet || !strings.HasPrefix(request.URL.Path, f.path) {
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
	It("[S17/growing-spacing] [S17/retries-metric] answers with internal errors, tries again ever later, and goes on when that is over",
		func(ctx SpecContext) {
			ns, metrics := namespace(ctx, nil), ports.Free()
			broken := &failures500{path: "/apis/apps/v1/namespaces/" + ns + "/statefulsets"}
			startOperator(proxyKubeconfigSetting(ctx, broken.hook), onlyNamespace(ns), "SWARM_CONTROLLER_RESYNC_PERIOD=1h",
				"SWARM_METRICS_ENABLED=true", "SWARM_METRICS_SECURE=false", "SWARM_METRICS_PORT="+metrics)
			swarm := newTeam(ns, "ants", 1)
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

			broken.disabled.Store(true)
			Eventually(isDeleted).WithContext(ctx).WithArguments(objectAt(&appsv1.StatefulSet{}, ns, "ants-worker")).Should(BeFalse())
			Eventually(condition).WithContext(ctx).WithArguments(swarm).Should(ContainSubstring("1 have a ready pod"))
		})

	// The leader loses its Lease and nothing else: it still receives every change, and whatever it would write is accepted.
	It("[K11/operator-no-overlap, R15/controllers-by-leader] does not renew its Lease, stops writing before the other starts",
		func(ctx SpecContext) {
			ns := namespace(ctx, nil)
			if _, err := audit.Requests(ns); err != nil {
				Skip(err.Error())
			}
			var cut atomic.Bool
			settings := []string{onlyNamespace(ns), "SWARM_CONTROLLER_LEADER_ELECTION_NAMESPACE=" + ns,
				"SWARM_CONTROLLER_LEADER_ELECTION_LEASE_DURATION=6s"}
			start := func(name string, block *atomic.Bool) *gexec.Session {
				hook := func(request *http.Request) int {
					request.Header.Set("User-Agent", name+"-"+ns)
					if block.Load() && strings.Contains(request.URL.Path, "/leases/") {
						<-request.Context().Done() // as when packets are lost
					}
					return 0
				}
				return startOperator(append(settings, proxyKubeconfigSetting(ctx, hook), "SWARM_LINK_PORT="+ports.Free())...)
			}
			first := start("first", &cut)
			Eventually(first.Err).Should(gbytes.Say("Successfully acquired lease"))
			second := start("second", &atomic.Bool{})
			Eventually(second.Err).Should(gbytes.Say("caches synced"))
			Expect(api.Create(ctx, newTeam(ns, "ants", 1))).To(Succeed())
			disturb(ctx, objectAt(&corev1.ConfigMap{}, ns, "ants-config"))
			Eventually(writeRequests).WithArguments("first-" + ns).ShouldNot(BeEmpty())

			cut.Store(true)
			parted := time.Now()
			Eventually(writeRequests).WithArguments("first-"+ns).Should(ContainElement(HaveField("Received", BeTemporally(">", parted))),
				"it can still write")
			Expect(writeRequests("second-" + ns)).To(BeEmpty())
			Eventually(first).Should(gexec.Exit(1))
			Eventually(writeRequests).WithArguments("second-" + ns).ShouldNot(BeEmpty())
			next := writeRequests("second-" + ns)[0]
			Expect(writeRequests("first-"+ns)).To(HaveEach(HaveField("Answered", BeTemporally("<", next.Received))),
				"the first write of the other: %v", next)
		})
})

// disturb keeps changing an object that the operator puts right again, so that a leader always has something to write.
func disturb(ctx context.Context, config *corev1.ConfigMap) {
	GinkgoHelper()
	Eventually(isDeleted).WithContext(ctx).WithArguments(config).Should(BeFalse())
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

// writeRequests are the requests of a client that change something, as the API server recorded them.
func writeRequests(userAgent string) []audit.Request {
	GinkgoHelper()
	all, err := audit.Requests(userAgent)
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(all, func(one audit.Request) bool { return !one.IsWrite() })
}
