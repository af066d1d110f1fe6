package operator

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/swarm-io/swarm-operator/internal/httpapi"
)

// recordingAPI is an API server that records the credentials of its callers, and denies everything.
type recordingAPI struct {
	lock     sync.Mutex
	requests []string
}

func (r *recordingAPI) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.requests = append(r.requests, request.Header.Get("Authorization"))
	http.Error(answer, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":401,"reason":"Unauthorized"}`, http.StatusUnauthorized)
}

var errNoCertificate = errors.New("there is none")

func noCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errNoCertificate }

// metricsOf requests the metrics of an operator with a token, and returns the status code.
func metricsOf(t *testing.T, config Config, api *rest.Config) int {
	t.Helper()
	handler, err := config.metricsHandler(api, nil)
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Authorization", "Bearer of-the-caller")
	recorded := httptest.NewRecorder()
	handler.ServeHTTP(recorded, request)
	return recorded.Code
}

func TestMetricsAreForThoseWhomTheAPIServerAllows(t *testing.T) {
	cluster := &recordingAPI{}
	api := httptest.NewServer(cluster)
	defer api.Close()
	for secure, allowed := range map[bool]bool{true: false, false: true} {
		config := Defaults()
		config.Metrics.Secure = secure
		code := metricsOf(t, config, &rest.Config{Host: api.URL, BearerToken: "of-the-operator"})
		if (code == http.StatusOK) != allowed {
			t.Errorf("secure %t: answered %d", secure, code)
		}
	}
	shown := Defaults().Metrics.tlsConfig(noCertificate)
	if shown == nil {
		t.Fatal("tokens of callers would be on the network")
	}
	if _, err := shown.GetCertificate(nil); !errors.Is(err, errNoCertificate) {
		t.Errorf("the metrics have another certificate: %v", err)
	}
	if (Metrics{}).tlsConfig(noCertificate) != nil {
		t.Error("metrics that are insecure are HTTPS")
	}
}

// An operator that may not review others lets callers review themselves: with their own token, and never with the operator's.
func TestConfinedOperatorAsksWithTheCallersTokenOnly(t *testing.T) {
	cluster := &recordingAPI{}
	api := httptest.NewServer(cluster)
	defer api.Close()
	config := Defaults()
	config.Controller.Namespaces = "a,b"
	if code := metricsOf(t, config, &rest.Config{Host: api.URL, BearerToken: "of-the-operator"}); code == http.StatusOK {
		t.Error("answered though the API server refused")
	}
	if len(cluster.requests) == 0 {
		t.Fatal("no review was requested")
	}
	for _, token := range cluster.requests {
		if !strings.Contains(token, "of-the-caller") {
			t.Errorf("asked with %q", token)
		}
	}
	judge, err := config.newAuthorizer(&rest.Config{Host: api.URL})
	if _, own := judge.(httpapi.SelfAuthorizer); err != nil || !own {
		t.Errorf("got %T, %v", judge, err)
	}
}

func TestOperatorWithRightsToTheClusterAsksWithItsOwn(t *testing.T) {
	cluster := &recordingAPI{}
	api := httptest.NewServer(cluster)
	defer api.Close()
	if code := metricsOf(t, Defaults(), &rest.Config{Host: api.URL, BearerToken: "of-the-operator"}); code == http.StatusOK {
		t.Error("answered though the API server refused")
	}
	for _, token := range cluster.requests {
		if token != "Bearer of-the-operator" {
			t.Errorf("asked with %q", token)
		}
	}
}
