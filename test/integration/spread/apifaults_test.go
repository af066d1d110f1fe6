package spread

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// An apiFault is a fault of a request to the API server.
type apiFault func(answer http.ResponseWriter, request *http.Request, proceed http.Handler)

func passThrough(answer http.ResponseWriter, request *http.Request, proceed http.Handler) {
	proceed.ServeHTTP(answer, request)
}

func respondWith(code int) apiFault {
	return func(answer http.ResponseWriter, _ *http.Request, _ http.Handler) { http.Error(answer, "not now", code) }
}

// tooManyRequests is the refusal of an overloaded API server.
func tooManyRequests(answer http.ResponseWriter, _ *http.Request, _ http.Handler) {
	answer.Header().Set("Retry-After", "1")
	http.Error(answer, "too many requests", http.StatusTooManyRequests)
}

// noResponse does not respond until the client gives up, or for longer than the operator waits.
func noResponse(answer http.ResponseWriter, request *http.Request, _ http.Handler) {
	patience, cancel := context.WithTimeout(request.Context(), 6*time.Second)
	defer cancel()
	<-patience.Done()
	http.Error(answer, "too late", http.StatusGatewayTimeout)
}

func abortConnection(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// loseResponse forwards the request, and drops the response.
func loseResponse(_ http.ResponseWriter, request *http.Request, proceed http.Handler) {
	proceed.ServeHTTP(discardWriter{http.Header{}}, request)
	panic(http.ErrAbortHandler)
}

// discardWriter discards a response.
type discardWriter struct{ header http.Header }

func (n discardWriter) Header() http.Header             { return n.header }
func (discardWriter) Write(content []byte) (int, error) { return len(content), nil }
func (discardWriter) WriteHeader(int)                   {}

// An apiFaultProxy is between an operator and the API server, and injects faults into requests while it is active.
type apiFaultProxy struct {
	upstream http.Handler

	lock       sync.Mutex
	pathPart   string // what a path must contain to be affected
	remaining  []apiFault
	faultCount int
}

// inject injects these faults once each, only into requests whose path contains a text.
func (s *apiFaultProxy) inject(struck string, mishaps ...apiFault) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.pathPart, s.remaining, s.faultCount = struck, mishaps, 0
}

// injectedFaults returns how many requests were affected.
func (s *apiFaultProxy) injectedFaults() int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.faultCount
}

// ServeHTTP implements http.Handler. It does not affect watches and the Lease: an operator without them is tested elsewhere.
func (s *apiFaultProxy) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	if request.URL.Query().Get("watch") != "" || strings.Contains(request.URL.Path, "/leases") {
		s.upstream.ServeHTTP(answer, request)
		return
	}
	if next := s.nextFault(request.URL.Path); next != nil {
		next(answer, request, s.upstream)
		return
	}
	s.upstream.ServeHTTP(answer, request)
}

func (s *apiFaultProxy) nextFault(path string) apiFault {
	s.lock.Lock()
	defer s.lock.Unlock()
	if len(s.remaining) == 0 || !strings.Contains(path, s.pathPart) {
		return nil
	}
	next := s.remaining[0]
	s.remaining = s.remaining[1:]
	s.faultCount++
	return next
}

// exposed returns a proxy that is not active yet, and the kubeconfig of an operator behind it.
func exposed(ctx context.Context) (*apiFaultProxy, string) {
	GinkgoHelper()
	target, _, err := rest.DefaultServerUrlFor(cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	silent := log.New(io.Discard, "", 0)
	s := &apiFaultProxy{upstream: &httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) { request.SetURL(target) }, Transport: transport, ErrorLog: silent,
		FlushInterval: -1, // watches stream
	}}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	server := &http.Server{Handler: s, ErrorLog: silent, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Close)
	way := clientcmdapi.NewConfig()
	way.Clusters["storm"] = &clientcmdapi.Cluster{Server: "http://" + listener.Addr().String()}
	way.Contexts["storm"] = &clientcmdapi.Context{Cluster: "storm"}
	way.CurrentContext = "storm"
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*way, file)).To(Succeed())
	return s, file
}

var _ = Describe("An API server in trouble", func() {
	It("[R22/controller] is asked until it is well again, no pod is moved by mistake, and the workload says what is wrong",
		func(ctx SpecContext) {
			weather, kubeconfig := exposed(ctx)
			s, web, _ := newMisplaced(ctx, 8)
			leader := replicaFleet.replaceReplicas(ctx, "KUBECONFIG="+kubeconfig)
			seen, failures := web.watchPods(ctx), reconcileSeries("errors_total", "deployment")
			Eventually(leader.metric).WithContext(ctx).WithArguments(failures).ShouldNot(BeEmpty(), "the controller has begun")
			before := leader.count(ctx, failures)

			By("it refuses everything")
			always := slices.Repeat([]apiFault{respondWith(http.StatusInternalServerError)}, 1000)
			weather.inject("", always...)
			web.optIn(ctx, "2", "50")
			Eventually(weather.injectedFaults).WithContext(ctx).Should(BeNumerically(">=", 3))
			Expect(s.moves()).To(BeEmpty())

			By("it refuses evictions alone")
			weather.inject("/eviction", always...)
			Eventually(web.annotation(v1alpha1.SpreadReason)).WithContext(ctx).Should(Equal("trying again: the API server says InternalError"))
			Eventually(leader.count).WithContext(ctx).WithArguments(failures).Should(BeNumerically(">", before), "a reconcile that fails is counted")
			Expect(s.moves()).To(BeEmpty())

			By("it answers now and then, in every way")
			everything := []apiFault{loseResponse, passThrough, tooManyRequests, respondWith(http.StatusInternalServerError), passThrough,
				noResponse, abortConnection, respondWith(http.StatusServiceUnavailable), passThrough}
			weather.inject("", slices.Repeat(everything, 3)...)
			web.awaitSettled(ctx, 4, 4)
			Expect(weather.injectedFaults()).To(BeNumerically(">=", len(everything)))
			AddReportEntry("requests that met a mishap, or might have", ReportEntryVisibilityAlways, weather.injectedFaults())
			gone := removedPods(s.moves())
			slices.Sort(gone)
			Expect(slices.Compact(gone)).To(HaveLen(4), "as many as had to go")
			Expect(seen.Lowest()).To(BeNumerically(">=", 6), "no more than a quarter is away at any time")
		})
})
