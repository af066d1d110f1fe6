package operator

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// clientCAs returns the CAs that sign the client certificates of the webhook's callers; nil if anyone may call it.
func (w Webhook) clientCAs() (*x509.CertPool, error) {
	if w.ClientCA == "" {
		return nil, nil
	}
	text, err := os.ReadFile(w.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("read webhook.clientCA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read webhook.clientCA: %s holds no certificate", w.ClientCA)
	}
	return pool, nil
}

// verifyClientCerts makes a server verify client certificates. The handshake does not require one: the kubelet's probe has none, and each
// of its handshakes would be a line in the log. Callers without a certificate are rejected by known, before their request is read.
func verifyClientCerts(clients *x509.CertPool, options *webhook.Options) {
	if clients == nil {
		return
	}
	options.TLSOpts = append(options.TLSOpts, func(config *tls.Config) {
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, clients
	})
}

// requireClientCert serves callers that have presented a certificate, if certificates are required.
func requireClientCert(clients *x509.CertPool, next http.Handler) http.Handler {
	if clients == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.TLS == nil || len(request.TLS.VerifiedChains) == 0 {
			http.Error(w, "a certificate that webhook.clientCA has signed is needed", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, request)
	})
}
