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

// A mishap is what may happen to a request on its way to the API server.
type mishap func(answer http.ResponseWriter, request *http.Request, proceed http.Handler)

func asFine(answer http.ResponseWriter, request *http.Request, proceed http.Handler) {
	proceed.ServeHTTP(answer, request)
}

func refused(code int) mishap {
	return func(answer http.ResponseWriter, _ *http.Request, _ http.Handler) { http.Error(answer, "not now", code) }
}

// asksForPatience is how an API server refuses that has too much to do.
func asksForPatience(answer http.ResponseWriter, _ *http.Request, _ http.Handler) {
	answer.Header().Set("Retry-After", "1")
	http.Error(answer, "too many requests", http.StatusTooManyRequests)
}

// staysSilent does not answer until the client gives up, or for longer than the operator waits.
func staysSilent(answer http.ResponseWriter, request *http.Request, _ http.Handler) {
	patience, cancel := context.WithTimeout(request.Context(), 6*time.Second)
	defer cancel()
	<-patience.Done()
	http.Error(answer, "too late", http.StatusGatewayTimeout)
}

func hangsUp(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// losesAnswer has the API server do it, and does not say so.
func losesAnswer(_ http.ResponseWriter, request *http.Request, proceed http.Handler) {
	proceed.ServeHTTP(nowhere{http.Header{}}, request)
	panic(http.ErrAbortHandler)
}

// nowhere discards an answer.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header             { return n.header }
func (nowhere) Write(content []byte) (int, error) { return len(content), nil }
func (nowhere) WriteHeader(int)                   {}

// A storm stands between an operator and the API server. While it rages, requests meet one mishap after the other.
type storm struct {
	proceed http.Handler

	lock   sync.Mutex
	struck string // what a path must contain to meet any
	left   []mishap
	met    int
}

// raise begins a storm of these mishaps, after which the weather is fine. Only paths that contain a text meet them.
func (s *storm) raise(struck string, mishaps ...mishap) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.struck, s.left, s.met = struck, mishaps, 0
}

// mishaps is how many requests have met one.
func (s *storm) mishaps() int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.met
}

// ServeHTTP implements http.Handler. Watches and the Lease are spared: an operator without them is another matter.
func (s *storm) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	if request.URL.Query().Get("watch") != "" || strings.Contains(request.URL.Path, "/leases") {
		s.proceed.ServeHTTP(answer, request)
		return
	}
	if next := s.next(request.URL.Path); next != nil {
		next(answer, request, s.proceed)
		return
	}
	s.proceed.ServeHTTP(answer, request)
}

func (s *storm) next(path string) mishap {
	s.lock.Lock()
	defer s.lock.Unlock()
	if len(s.left) == 0 || !strings.Contains(path, s.struck) {
		return nil
	}
	next := s.left[0]
	s.left = s.left[1:]
	s.met++
	return next
}

// exposed is a storm that has not begun, and the kubeconfig of an operator behind it.
func exposed(ctx context.Context) (*storm, string) {
	GinkgoHelper()
	target, _, err := rest.DefaultServerUrlFor(cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	silent := log.New(io.Discard, "", 0)
	s := &storm{proceed: &httputil.ReverseProxy{
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
	It("[R22/controller] is asked until it is well again, no pod is moved by mistake, and the workload says what is wrong", func(ctx SpecContext) {
		weather, kubeconfig := exposed(ctx)
		s, web, _ := adrift(ctx, 8)
		leader := team.instead(ctx, "KUBECONFIG="+kubeconfig)
		seen, failures := web.watched(ctx), reconciled("errors_total", "deployment")
		Eventually(leader.metric).WithContext(ctx).WithArguments(failures).ShouldNot(BeEmpty(), "the controller has begun")
		before := leader.count(ctx, failures)

		By("it refuses everything")
		always := slices.Repeat([]mishap{refused(http.StatusInternalServerError)}, 1000)
		weather.raise("", always...)
		web.opt(ctx, "2", "50")
		Eventually(weather.mishaps).WithContext(ctx).Should(BeNumerically(">=", 3))
		Expect(s.moves()).To(BeEmpty())

		By("it refuses evictions alone")
		weather.raise("/eviction", always...)
		Eventually(web.says(v1alpha1.SpreadReason)).WithContext(ctx).Should(Equal("trying again: the API server says InternalError"))
		Eventually(leader.count).WithContext(ctx).WithArguments(failures).Should(BeNumerically(">", before), "a reconcile that fails is counted")
		Expect(s.moves()).To(BeEmpty())

		By("it answers now and then, in every way")
		everything := []mishap{losesAnswer, asFine, asksForPatience, refused(http.StatusInternalServerError), asFine, staysSilent, hangsUp, refused(http.StatusServiceUnavailable), asFine}
		weather.raise("", slices.Repeat(everything, 3)...)
		web.settles(ctx, 4, 4)
		Expect(weather.mishaps()).To(BeNumerically(">=", len(everything)))
		AddReportEntry("requests that met a mishap, or might have", ReportEntryVisibilityAlways, weather.mishaps())
		gone := taken(s.moves())
		slices.Sort(gone)
		Expect(slices.Compact(gone)).To(HaveLen(4), "as many as had to go")
		Expect(seen.Lowest()).To(BeNumerically(">=", 6), "no more than a quarter is away at any time")
	})
})
