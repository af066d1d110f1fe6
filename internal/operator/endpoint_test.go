package operator

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
	"github.com/swarm-io/swarm-operator/kit"
)

// A served endpoint answers "reviewed" at /.
type testEndpoint struct {
	endpoint
	tls          bool
	refusedCount func() int
	checkHealth  healthz.Checker // nil for those without
}

var reviewed = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "reviewed") })

func newRefusalCounter(t *testing.T, at endpoint) (*limit.Refusals, func() int) {
	t.Helper()
	registry := prometheus.NewRegistry()
	return limit.NewRefusals(registry), func() int {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, series := range families[0].GetMetric() {
			if series.GetLabel()[0].GetValue() == string(at.connections.Limit) {
				return int(series.GetCounter().GetValue())
			}
		}
		return -1
	}
}

// serveWebhook serves the webhook until the test ends.
func serveWebhook(t *testing.T, change func(*Config)) testEndpoint {
	t.Helper()
	config, shown := Defaults(), linktest.NewCA(t).Peer
	config.Webhook.Port = freePort(t, "127.0.0.1")
	change(&config)
	options := config.Webhook.serverOptions()
	options.TLSOpts = append(options.TLSOpts, func(c *tls.Config) {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &shown, nil }
	})
	at := config.webhookEndpoint()
	refusals, refused := newRefusalCounter(t, at)
	server := newWebhookServer(options, at, refusals)
	var _ webhook.Server = server // by which the manager starts it before the caches
	server.Register("/", reviewed)
	background(t, server.Start)
	linktest.Eventually(t, "the webhook is served", func() bool { return server.StartedChecker()(nil) == nil })
	return testEndpoint{endpoint: at, tls: true, refusedCount: refused, checkHealth: server.StartedChecker()}
}

// serveOther serves metrics or probes until the test ends.
func serveOther(t *testing.T, at endpoint, encrypted bool) testEndpoint {
	t.Helper()
	at.port = freePort(t, "127.0.0.1")
	refusals, refused := newRefusalCounter(t, at)
	var shown *tls.Config
	if encrypted {
		pair := linktest.NewCA(t).Peer
		shown = Metrics{Secure: true}.tlsConfig(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil })
	}
	listener, err := at.listen(t.Context(), shown, refusals)
	if err != nil {
		t.Fatal(err)
	}
	background(t, at.newServer(reviewed, listener, time.Second).Start)
	return testEndpoint{endpoint: at, tls: encrypted, refusedCount: refused}
}

// dial connects from an address of this machine, as if it were another pod.
func (s testEndpoint) dial(ctx context.Context, source string) (net.Conn, error) {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	to := fmt.Sprintf("127.0.0.1:%d", s.port)
	if !s.tls {
		return dialer.DialContext(ctx, "tcp", to)
	}
	return (&tls.Dialer{NetDialer: dialer, Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, "tcp", to)
}

// post sends a review with a header of this length on a connection of its own, and returns the status code.
func (s testEndpoint) post(ctx context.Context, source string, header int) (int, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx, source) }
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/", s.port), strings.NewReader("{}"))
	if err != nil {
		return 0, err
	}
	request.Header.Set("X-Padding", strings.Repeat("x", header))
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Body.Close()
}

// halfHeader opens a connection that sends half of a header, and holds it until the test ends.
func (s testEndpoint) halfHeader(t *testing.T, source string) {
	t.Helper()
	raw, err := s.dial(t.Context(), source)
	if err != nil {
		return // closed before the handshake
	}
	t.Cleanup(func() { _ = raw.Close() })
	_, _ = io.WriteString(raw, "POST / HTTP/1.1\r\nHost: a\r\nX-Padding: ")
}

// occupyConnection takes a place until the test ends or the server times out: by half of a header or, before that, of a handshake.
func (s testEndpoint) occupyConnection(t *testing.T, source string) {
	t.Helper()
	plain := s
	plain.tls = false
	raw, err := plain.dial(t.Context(), source)
	if err != nil {
		return
	}
	t.Cleanup(func() { _ = raw.Close() })
	if !s.tls {
		_, _ = io.WriteString(raw, "POST / HTTP/1.1\r\nHost: a\r\nX-Padding: ")
	}
}

func eachEndpoint(t *testing.T, run func(*testing.T, testEndpoint)) {
	t.Helper()
	config := Defaults()
	for name, start := range map[string]func(*testing.T) testEndpoint{
		"webhook": func(t *testing.T) testEndpoint {
			return serveWebhook(t, func(c *Config) { c.Limits.WebhookConnectionsPerSource = maxOtherConnectionsPerSource })
		},
		"metrics":         func(t *testing.T) testEndpoint { return serveOther(t, config.metricsEndpoint(), true) },
		"metrics, no TLS": func(t *testing.T) testEndpoint { return serveOther(t, config.metricsEndpoint(), false) },
		"health":          func(t *testing.T) testEndpoint { return serveOther(t, config.healthEndpoint(), false) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, start(t))
		})
	}
}

// A pod that sends partial headers, or nothing, on as many connections as it can uses up only its own places.
func TestFloodOfHeadersIsBounded(t *testing.T) {
	t.Parallel()
	const flood, most = 200, maxOtherConnectionsPerSource
	eachEndpoint(t, func(t *testing.T, s testEndpoint) {
		// On a slow machine places become free meanwhile, because headers and handshakes have 5 s.
		linktest.Eventually(t, "connections beyond the limit are closed", func() bool {
			s.occupyConnection(t, "127.0.0.3")
			return s.refusedCount() >= flood-most
		})
		if code, err := s.post(t.Context(), "127.0.0.1", 0); code != http.StatusOK {
			t.Errorf("another address: got %d, %v", code, err)
		}
		if s.checkHealth != nil {
			if err := s.checkHealth(nil); err != nil {
				t.Errorf("the webhook is not ready: %v", err)
			}
		}
	})
}

// Slow callers lose their places.
func TestHalfOfAHeaderHoldsItsPlaceForSeconds(t *testing.T) {
	t.Parallel()
	s := serveWebhook(t, func(c *Config) { c.Limits.WebhookConnectionsPerSource = 3 })
	for range 3 {
		s.halfHeader(t, "127.0.0.3")
	}
	if code, err := s.post(t.Context(), "127.0.0.3", 0); err == nil {
		t.Fatalf("a fourth connection: got %d", code)
	}
	linktest.Eventually(t, "the address is answered again", func() bool {
		code, _ := s.post(t.Context(), "127.0.0.3", 0)
		return code == http.StatusOK
	})
}

func TestHeadersAreShort(t *testing.T) {
	t.Parallel()
	eachEndpoint(t, func(t *testing.T, s testEndpoint) {
		if code, err := s.post(t.Context(), "127.0.0.1", s.headerBytes/2); code != http.StatusOK {
			t.Errorf("a header of half of the limit: got %d, %v", code, err)
		}
		if code, err := s.post(t.Context(), "127.0.0.1", s.headerBytes+16<<10); err == nil && code != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a header beyond the limit: got %d", code)
		}
	})
}

func TestUsedEndpointPortIsAnErrorWithItsKey(t *testing.T) {
	at := Defaults().healthEndpoint()
	taken, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	at.port = taken.Addr().(*net.TCPAddr).Port
	if _, err := at.listen(t.Context(), nil, nil); err == nil || !strings.HasPrefix(err.Error(), "open health.port: ") {
		t.Errorf("got %v", err)
	}
}

func TestWebhookIsNotReadyBeforeItIsServed(t *testing.T) {
	server := newWebhookServer(webhook.Options{}, Defaults().webhookEndpoint(), nil)
	if err := server.StartedChecker()(nil); err == nil {
		t.Error("ready")
	}
}

func TestWebhookWithoutItsCertificateDoesNotStart(t *testing.T) {
	server := newWebhookServer(webhook.Options{CertDir: t.TempDir()}, Defaults().webhookEndpoint(), nil)
	if err := server.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "webhook.certDir") {
		t.Errorf("got %v", err)
	}
}

// Metrics and probes answer on every replica, also if it never leads, as here without an API server.
func TestMetricsAndProbesAnswerWithoutLeadership(t *testing.T) {
	silent := httptest.NewServer(http.NotFoundHandler())
	defer silent.Close()
	operator, err := kit.NewOperator(&rest.Config{Host: silent.URL}, kit.Options{
		Manager:     manager.Options{Scheme: newScheme(), HealthProbeBindAddress: "0", Metrics: server.Options{BindAddress: "0"}},
		Election:    kit.Election{Namespace: "system", Name: leaseName, Identity: "this"},
		SyncTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	p := newTestDeps(func(c *Config) {
		c.Health.Port, c.Metrics.Port, c.Metrics.Secure = freePort(t, "127.0.0.1"), freePort(t, "127.0.0.1"), false
	})
	p.Operator, p.refusals = operator, limit.NewRefusals(prometheus.NewRegistry())
	if err := p.addEndpoints(t.Context()); err != nil {
		t.Fatal(err)
	}
	background(t, func(ctx context.Context) error { return operator.Start(ctx) })
	for _, at := range []string{
		fmt.Sprintf("%d/healthz", p.config.Health.Port), fmt.Sprintf("%d/readyz/caches", p.config.Health.Port),
		fmt.Sprintf("%d/metrics", p.config.Metrics.Port),
	} {
		linktest.Eventually(t, at+" answers", func() bool {
			response, err := http.Get("http://127.0.0.1:" + at)
			if err != nil {
				return false
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			return response.StatusCode == http.StatusOK
		})
	}
}
