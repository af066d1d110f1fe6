package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/swarm-io/swarm-operator/internal/limit"
)

// webhookServer is controller-runtime's webhook server, which registers and measures webhooks, on a port with limits. It implements
// webhook.Server.
type webhookServer struct {
	*webhook.DefaultServer
	endpoint endpoint
	refusals *limit.Refusals
	started  atomic.Bool
}

func newWebhookServer(options webhook.Options, ep endpoint, refusals *limit.Refusals) *webhookServer {
	options.WebhookMux = http.NewServeMux()
	return &webhookServer{DefaultServer: &webhook.DefaultServer{Options: options}, endpoint: ep, refusals: refusals}
}

// Start implements manager.Runnable.
func (w *webhookServer) Start(ctx context.Context) error {
	tlsConfig, err := w.tlsConfig(ctx)
	if err != nil {
		return err
	}
	listener, err := w.endpoint.listen(ctx, tlsConfig, w.refusals)
	if err != nil {
		return err
	}
	httpServer := w.endpoint.newServer(w.Options.WebhookMux, listener, time.Minute)
	httpServer.Server.BaseContext = func(net.Listener) context.Context { return ctx }
	w.started.Store(true)
	return httpServer.Start(ctx)
}

// tlsConfig serves the certificate that the options name, or those in the folder, which may change at any time.
func (w *webhookServer) tlsConfig(ctx context.Context) (*tls.Config, error) {
	config := &tls.Config{}
	for _, change := range w.Options.TLSOpts {
		change(config)
	}
	if config.GetCertificate != nil {
		return config, nil
	}
	watcher, err := certwatcher.New(filepath.Join(w.Options.CertDir, "tls.crt"), filepath.Join(w.Options.CertDir, "tls.key"))
	if err != nil {
		return nil, fmt.Errorf("read certificate in webhook.certDir: %w", err)
	}
	config.GetCertificate = watcher.GetCertificate
	go func() {
		if err := watcher.Start(ctx); err != nil {
			log.FromContext(ctx).Error(err, "stopped watching the webhook certificate")
		}
	}()
	return config, nil
}

// StartedChecker implements webhook.Server. The check uses its own connection.
func (w *webhookServer) StartedChecker() healthz.Checker {
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: &tls.Config{InsecureSkipVerify: true}}
	return func(*http.Request) error {
		if !w.started.Load() {
			return errors.New("webhook server has not been started yet")
		}
		connection, err := dialer.DialContext(context.Background(), "tcp", listenAddress(w.endpoint.port))
		if err != nil {
			return fmt.Errorf("webhook server is not reachable: %w", err)
		}
		return connection.Close()
	}
}
