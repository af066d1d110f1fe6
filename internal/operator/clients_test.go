package operator

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

// post sends a review with or without a certificate, and returns the status code; 0 for a failed handshake.
func post(t *testing.T, server *httptest.Server, shown ...tls.Certificate) int {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(shown) == 0 {
				return &tls.Certificate{}, nil
			}
			return &shown[0], nil
		}}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("review"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// With webhook.clientCA, only callers with a certificate of that CA are served.
func TestWebhookVerifiesItsClients(t *testing.T) {
	ours, others := linktest.NewCA(t), linktest.NewCA(t)
	for reason, c := range map[string]struct {
		file  string
		shown []tls.Certificate
		want  int
	}{
		"anyone, without clientCA":   {"", nil, http.StatusOK},
		"no certificate":             {ours.File(t), nil, http.StatusForbidden},
		"a certificate of the CA":    {ours.File(t), []tls.Certificate{ours.Peer}, http.StatusOK},
		"a certificate of another":   {ours.File(t), []tls.Certificate{others.Peer}, 0},
		"any certificate, if no one": {"", []tls.Certificate{others.Peer}, http.StatusOK},
	} {
		t.Run(reason, func(t *testing.T) {
			clients, err := Webhook{ClientCA: c.file}.clientCAs()
			if err != nil {
				t.Fatal(err)
			}
			options, read := &webhook.Options{}, false
			verifyClientCerts(clients, options)
			server := httptest.NewUnstartedServer(requireClientCert(clients,
				http.HandlerFunc(func(http.ResponseWriter, *http.Request) { read = true })))
			server.TLS = &tls.Config{}
			for _, change := range options.TLSOpts {
				change(server.TLS)
			}
			server.StartTLS()
			defer server.Close()
			if got := post(t, server, c.shown...); got != c.want || read != (c.want == http.StatusOK) {
				t.Errorf("got %d, want %d; read: %t", got, c.want, read)
			}
		})
	}
}

func TestClientCAThatIsNone(t *testing.T) {
	for _, file := range []string{filepath.Join(t.TempDir(), "missing"), writeConfig(t, "no certificate")} {
		if _, err := (Webhook{ClientCA: file}).clientCAs(); err == nil || !strings.Contains(err.Error(), "webhook.clientCA") {
			t.Errorf("%s: got %v", file, err)
		}
	}
}
