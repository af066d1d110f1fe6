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
	at       endpoint
	refusals *limit.Refusals
	started  atomic.Bool
}

func newWebhookServer(options webhook.Options, at endpoint, refusals *limit.Refusals) *webhookServer {
	options.WebhookMux = http.NewServeMux()
	return &webhookServer{DefaultServer: &webhook.DefaultServer{Options: options}, at: at, refusals: refusals}
}

// Start implements manager.Runnable.
func (w *webhookServer) Start(ctx context.Context) error {
	shown, err := w.tls(ctx)
	if err != nil {
		return err
	}
	listener, err := w.at.listen(ctx, shown, w.refusals)
	if err != nil {
		return err
	}
	served := w.at.serve(w.Options.WebhookMux, listener, time.Minute)
	served.Server.BaseContext = func(net.Listener) context.Context { return ctx }
	w.started.Store(true)
	return served.Start(ctx)
}

// tls serves the certificate that the options name, or those in the folder, which may change at any time.
func (w *webhookServer) tls(ctx context.Context) (*tls.Config, error) {
	shown := &tls.Config{}
	for _, change := range w.Options.TLSOpts {
		change(shown)
	}
	if shown.GetCertificate != nil {
		return shown, nil
	}
	watcher, err := certwatcher.New(filepath.Join(w.Options.CertDir, "tls.crt"), filepath.Join(w.Options.CertDir, "tls.key"))
	if err != nil {
		return nil, fmt.Errorf("read certificate in webhook.certDir: %w", err)
	}
	shown.GetCertificate = watcher.GetCertificate
	go func() {
		if err := watcher.Start(ctx); err != nil {
			log.FromContext(ctx).Error(err, "the certificate of the webhook is not followed any more")
		}
	}()
	return shown, nil
}

// StartedChecker implements webhook.Server. The check makes a connection of its own.
func (w *webhookServer) StartedChecker() healthz.Checker {
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: &tls.Config{InsecureSkipVerify: true}}
	return func(*http.Request) error {
		if !w.started.Load() {
			return errors.New("webhook server has not been started yet")
		}
		connection, err := dialer.DialContext(context.Background(), "tcp", address(w.at.port))
		if err != nil {
			return fmt.Errorf("webhook server is not reachable: %w", err)
		}
		return connection.Close()
	}
}
