package operator

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestNamespaceOfARequest(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/namespaces/a/pods/b":                         "a",
		"/apis/swarm.io/v1alpha1/namespaces/a/tasks/b/status": "a",
		"/k8s/clusters/c/api/v1/namespaces/a/configmaps":      "a",
		"/api/v1/namespaces/a":                                "a",
		"/api/v1/namespaces":                                  "",
		"/api/v1/nodes/namespaces":                            "",
		"/apis/swarm.io/v1alpha1/tasks":                       "",
	} {
		if got := namespaceOfPath(path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

// countingAPI is an API server without objects that counts requests by namespace. It needs no network, so that time can be faked.
type countingAPI struct {
	mu    sync.Mutex
	count map[string]int
}

func (a *countingAPI) RoundTrip(request *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count[namespaceOfPath(request.URL.Path)]++
	answer := httptest.NewRecorder()
	answer.Header().Set("Content-Type", "application/json")
	answer.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(answer, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	return answer.Result(), nil
}

func (a *countingAPI) countOf(namespace string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count[namespace]
}

func newTestClients(t *testing.T, config Config, server http.RoundTripper) (client.Client, client.Reader) {
	t.Helper()
	kinds := meta.NewDefaultRESTMapper(nil)
	kinds.Add(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, meta.RESTScopeNamespace)
	made, live, err := newLimitedClients(config.requestBudget())(&rest.Config{Host: "http://localhost", QPS: -1}, client.Options{
		Scheme: newScheme(), Mapper: kinds, HTTPClient: &http.Client{Transport: server},
	})
	if err != nil {
		t.Fatal(err)
	}
	return made, live
}

// A request is about a Secret of a namespace.
type request func(ctx context.Context, namespace string)

func writes(to client.Client) request {
	return func(ctx context.Context, namespace string) {
		secret := &corev1.Secret{}
		secret.Namespace, secret.Name = namespace, "s"
		_ = to.Delete(ctx, secret)
	}
}

func reads(from client.Reader) request {
	return func(ctx context.Context, namespace string) {
		_ = from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "s"}, &corev1.Secret{})
	}
}

// startRequests sends concurrent requests of a namespace, and returns when they are in progress.
func startRequests(ctx context.Context, one request, namespace string, count int) {
	for range count {
		go one(ctx, namespace)
	}
	synctest.Wait()
}

// One namespace makes 50 times as many requests as another. The other's requests wait for two at most, and together there are no more
// than client.qps: writes, and live reads.
func TestStormInOneNamespaceLeavesTheOthersTheirTurns(t *testing.T) {
	for name, kinds := range map[string]func(client.Client, client.Reader) (stormy, calm request){
		"writes":            func(to client.Client, _ client.Reader) (stormy, calm request) { return writes(to), writes(to) },
		"reads":             func(_ client.Client, from client.Reader) (stormy, calm request) { return reads(from), reads(from) },
		"reads beside them": func(to client.Client, from client.Reader) (stormy, calm request) { return reads(from), writes(to) },
	} {
		t.Run(name, func(t *testing.T) { testOtherNamespaceIsServed(t, kinds) })
	}
}

func testOtherNamespaceIsServed(t *testing.T, kinds func(client.Client, client.Reader) (busy, other request)) {
	synctest.Test(t, func(t *testing.T) {
		config, server := Defaults(), &countingAPI{count: map[string]int{}}
		config.Client, config.Limits.RequestShare = Client{QPS: 100, Burst: 200}, 100 // no reserve
		busy, other := kinds(newTestClients(t, config, server))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		startRequests(ctx, busy, "stormy", 2500)
		began := time.Now()
		for n := range 50 {
			before := time.Now()
			other(t.Context(), "calm")
			if waited := time.Since(before); waited > 2*time.Second/100 {
				t.Errorf("request %d waited for %s", n, waited)
			}
			time.Sleep(50 * time.Millisecond)
		}
		most := 200 + int(100*time.Since(began).Seconds()) + 1
		if sum := server.countOf("stormy") + server.countOf("calm"); sum > most || sum < most-3 {
			t.Errorf("%d requests, want %d", sum, most)
		}
		cancel()
		synctest.Wait()
	})
}

// limits.requestShare reserves the rest of the burst for other namespaces: that many writes do not wait.
func TestRequestShareIsWhatOneNamespaceLeaves(t *testing.T) {
	for share, want := range map[int]int{100: 0, 50: 100, 10: 180} {
		synctest.Test(t, func(t *testing.T) {
			config, server := Defaults(), &countingAPI{count: map[string]int{}}
			config.Client, config.Limits.RequestShare = Client{QPS: 1, Burst: 200}, share
			to, _ := newTestClients(t, config, server)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			startRequests(ctx, writes(to), "stormy", 400)
			if got := server.countOf("stormy"); got != 200-want {
				t.Errorf("share %d: %d at once, want %d", share, got, 200-want)
			}
			startRequests(ctx, writes(to), "calm", 10)
			if got := server.countOf("calm"); got != min(want, 10) {
				t.Errorf("share %d: the other namespace made %d at once, want %d", share, got, min(want, 10))
			}
			cancel()
			synctest.Wait()
		})
	}
}
