package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/swarm-io/swarm-operator/internal/certs"
	"github.com/swarm-io/swarm-operator/internal/controller/webhookconfig"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/webhook/pool"
	"github.com/swarm-io/swarm-operator/internal/webhook/spread"
)

// addWebhook serves admission on every replica. With certificates of its own, the operator also sets the CA bundle; with certificates
// from another source, the user does.
func (p deps) addWebhook(ctx context.Context) error {
	if !p.config.Webhook.Enabled {
		return nil
	}
	hasCertificate, err := p.config.Webhook.hasCertificate()
	if err != nil {
		return err
	}
	if hasCertificate && p.registration != nil {
		return fmt.Errorf("webhook.certDir %s holds a certificate, and webhook.url needs one of the operator's own: remove it, or set webhook.url to \"\"", p.config.Webhook.CertDir)
	}
	clients, err := p.config.Webhook.clientCAs()
	if err != nil {
		return err
	}
	options, source := p.config.Webhook.serverOptions(), p.config.Webhook.CertDir
	verifyClientCerts(clients, &options)
	if !hasCertificate {
		source = "Secret " + certs.SecretName
		cert := webhookconfig.NewServingCert(p.certs.Certificates)
		options.TLSOpts = append(options.TLSOpts, func(config *tls.Config) { config.GetCertificate = cert.Certificate })
		if err := errors.Join(webhookconfig.AddCABundleController(p.Operator, p.certs.Bundle), cert.Watch(ctx, p.GetCache())); err != nil {
			return err
		}
	}
	p.env.Log.Info("loaded the webhook certificate", "from", source)
	server := newWebhookServer(options, p.config.webhookEndpoint(), p.refusals)
	p.webhookGate.checkServing = server.StartedChecker()
	poolHandler := p.observeWebhook(withLogging(pool.Pods(p.GetClient(), p.GetAPIReader(), p.GetScheme(), p.scope)))
	server.Register(pool.Path, requireClientCert(clients, limit.Bodies(poolHandler, p.refusals)))
	spreadHandler := spread.Pods(p.leaderClient(), p.GetScheme(), p.config.spreadSettings(), spread.InScope(p.GetClient(), p.scope),
		ctrlmetrics.Registry)
	server.Register(spread.Path, requireClientCert(clients, limit.Bodies(withLogging(spreadHandler), p.refusals)))
	return errors.Join(webhookconfig.AddNamespaceSelectorController(p.Operator, p.namespaceSelector()), p.Add(server),
		p.AddReadyzCheck("webhook", p.webhookGate.checkServing))
}

func (w Webhook) serverOptions() webhook.Options {
	return webhook.Options{Port: w.Port, CertDir: w.CertDir, TLSOpts: []func(*tls.Config){disableHTTP2}}
}

// disableHTTP2 disables HTTP/2, with which one connection can open and cancel any number of requests. API servers and Prometheus do
// without.
func disableHTTP2(config *tls.Config) { config.NextProtos = []string{"http/1.1"} }

// withLogging logs every answer of a webhook at level debug. The logger of the context has the request ID, truncated like everything else
// that a caller chooses. Without a request, it logs unreadable bodies, which anyone can send.
func withLogging(hook *webhook.Admission) *webhook.Admission {
	unreadable := &throttledLog{}
	hook.LogConstructor = func(base logr.Logger, request *ctrladmission.Request) logr.Logger {
		if request == nil {
			return base.WithSink(throttledSink{base.GetSink(), unreadable})
		}
		return limit.Logger(base, request)
	}
	inner := hook.Handler
	hook.Handler = ctrladmission.HandlerFunc(func(ctx context.Context, request ctrladmission.Request) ctrladmission.Response {
		response := inner.Handle(ctx, request)
		reason := ""
		if response.Result != nil {
			reason = response.Result.Message
		}
		log.FromContext(ctx).V(1).Info("admission reviewed", "allowed", response.Allowed, "patches", len(response.Patches), "reason", reason)
		return response
	})
	return hook
}

// hasCertificate reports whether the folder has a certificate and its key. Having only one of them is a configuration error.
func (w Webhook) hasCertificate() (bool, error) {
	exists := map[string]bool{}
	for _, name := range []string{"tls.crt", "tls.key"} {
		_, err := os.Stat(filepath.Join(w.CertDir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, fmt.Errorf("look for certificates in webhook.certDir: %w", err)
		}
		exists[name] = err == nil
	}
	if exists["tls.crt"] != exists["tls.key"] {
		return false, fmt.Errorf("webhook.certDir %s must hold both tls.crt and tls.key, or neither", w.CertDir)
	}
	return exists["tls.crt"], nil
}
