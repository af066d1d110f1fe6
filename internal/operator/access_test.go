package operator

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/swarm-io/swarm-operator/internal/httpapi"
)

// reviewer is an API server that notes whose credentials it was asked with, and refuses everything.
type reviewer struct {
	lock  sync.Mutex
	asked []string
}

func (r *reviewer) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.asked = append(r.asked, request.Header.Get("Authorization"))
	http.Error(answer, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":401,"reason":"Unauthorized"}`, http.StatusUnauthorized)
}

var errNone = errors.New("there is none")

func noCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errNone }

// metricsOf asks for the metrics of an operator with a token.
func metricsOf(t *testing.T, config Config, api *rest.Config) (code int, protected bool) {
	t.Helper()
	options := config.metrics(api, noCertificate, nil)
	if options.FilterProvider == nil {
		return 0, false
	}
	filter, err := options.FilterProvider(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := filter(logr.Discard(), http.HandlerFunc(func(answer http.ResponseWriter,
		_ *http.Request) {
		answer.WriteHeader(http.StatusOK)
	}))
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Authorization", "Bearer of-the-caller")
	recorded := httptest.NewRecorder()
	handler.ServeHTTP(recorded, request)
	return recorded.Code, true
}

func TestMetricsAreForThoseWhomTheAPIServerAllows(t *testing.T) {
	cluster := &reviewer{}
	api := httptest.NewServer(cluster)
	defer api.Close()
	for reason, c := range map[string]struct {
		change    func(*Config)
		protected bool
	}{
		"by default": {func(*Config) {}, true},
		"insecure":   {func(c *Config) { c.Metrics.Secure = false }, false},
		"off":        {func(c *Config) { c.Metrics.Enabled = false }, false},
	} {
		config := Defaults()
		c.change(&config)
		code, protected := metricsOf(t, config, &rest.Config{Host: api.URL, BearerToken: "of-the-operator"})
		if protected != c.protected || protected && code == http.StatusOK {
			t.Errorf("%s: protected %t, answered %d", reason, protected, code)
		}
	}
	off := Defaults()
	off.Metrics.Enabled = false
	if address := off.metrics(&rest.Config{}, noCertificate, nil).BindAddress; address != "0" {
		t.Errorf("metrics that are off are served at %q", address)
	}
	if !Defaults().metrics(&rest.Config{}, noCertificate, nil).SecureServing {
		t.Error("tokens of callers would be on the network")
	}
	var shown tls.Config
	for _, change := range Defaults().metrics(&rest.Config{}, noCertificate, nil).TLSOpts {
		change(&shown)
	}
	if shown.GetCertificate == nil {
		t.Fatal("the metrics have a certificate that controller-runtime makes")
	}
	if _, err := shown.GetCertificate(nil); !errors.Is(err, errNone) {
		t.Errorf("the metrics have another certificate: %v", err)
	}
}

// An operator that may not ask about others has callers ask about themselves: with their own token, and never with the operator's.
func TestConfinedOperatorAsksWithTheCallersTokenOnly(t *testing.T) {
	cluster := &reviewer{}
	api := httptest.NewServer(cluster)
	defer api.Close()
	config := Defaults()
	config.Controller.Namespaces = "a,b"
	if _, protected := metricsOf(t, config, &rest.Config{Host: api.URL, BearerToken: "of-the-operator"}); !protected {
		t.Fatal("not protected")
	}
	if len(cluster.asked) == 0 {
		t.Fatal("nobody was asked")
	}
	for _, token := range cluster.asked {
		if !strings.Contains(token, "of-the-caller") {
			t.Errorf("asked with %q", token)
		}
	}
	judge, err := config.judge(&rest.Config{Host: api.URL})
	if _, own := judge.(httpapi.Selves); err != nil || !own {
		t.Errorf("got %T, %v", judge, err)
	}
}

func TestOperatorWithRightsToTheClusterAsksWithItsOwn(t *testing.T) {
	cluster := &reviewer{}
	api := httptest.NewServer(cluster)
	defer api.Close()
	if code, _ := metricsOf(t, Defaults(), &rest.Config{Host: api.URL, BearerToken: "of-the-operator"}); code == http.StatusOK {
		t.Error("answered though the API server refused")
	}
	for _, token := range cluster.asked {
		if token != "Bearer of-the-operator" {
			t.Errorf("asked with %q", token)
		}
	}
}
