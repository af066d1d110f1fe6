package operator

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/swarm-io/swarm-operator/internal/limit"
)

// The limits for the connections of all callers together. Before its request is read, a connection takes at most headerBytes and
// buffers of about 40 KiB, so they bound the memory that callers without credentials can use.
const (
	maxWebhookConnections = 2048
	maxOtherConnections   = 256 // each of metrics and probes
	// maxOtherConnectionsPerSource is for scrapes and probes, of which a caller has one or two at a time.
	maxOtherConnectionsPerSource = 64
)

// An endpoint is a port that anyone on the network may reach, with limits on what callers may cost before they are authenticated. The
// servers of controller-runtime take any number of connections, and wait 32 s for 1 MiB of headers on each.
type endpoint struct {
	name        string // in logs
	key         string // of the port, in the configuration
	port        int
	headerBytes int
	connections limit.ConnectionLimits
}

func (c Config) webhookEndpoint() endpoint {
	return endpoint{
		name: "webhook", key: "webhook.port", port: c.Webhook.Port, headerBytes: 16 << 10,
		connections: limit.ConnectionLimits{
			PerSource: c.Limits.WebhookConnectionsPerSource, Total: maxWebhookConnections, Limit: limit.WebhookConnections,
		},
	}
}

// metricsEndpoint has room in its headers for the longest token.
func (c Config) metricsEndpoint() endpoint {
	return endpoint{
		name: "metrics", key: "metrics.port", port: c.Metrics.Port, headerBytes: 32 << 10,
		connections: limit.ConnectionLimits{PerSource: maxOtherConnectionsPerSource, Total: maxOtherConnections, Limit: limit.MetricsConnections},
	}
}

func (c Config) healthEndpoint() endpoint {
	return endpoint{
		name: "health", key: "health.port", port: c.Health.Port, headerBytes: 4 << 10,
		connections: limit.ConnectionLimits{PerSource: maxOtherConnectionsPerSource, Total: maxOtherConnections, Limit: limit.HealthConnections},
	}
}

// listen opens the port. Without a TLS configuration it serves plain HTTP.
func (e endpoint) listen(ctx context.Context, tlsConfig *tls.Config, refusals *limit.Refusals) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listenAddress(e.port))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", e.key, err)
	}
	limited := limit.NewListener(listener, e.connections, refusals)
	if tlsConfig == nil {
		return limited, nil
	}
	return tls.NewListener(limited, tlsConfig), nil
}

// newServer creates a server for the listener. ReadHeaderTimeout also limits the TLS handshake. The idle timeout exceeds the 90 s of API
// servers: otherwise they might send a review on a connection that is being closed, and not retry it.
func (e endpoint) newServer(handler http.Handler, listener net.Listener, shutdownTimeout time.Duration) *manager.Server {
	return &manager.Server{
		Name: e.name, Listener: listener, ShutdownTimeout: &shutdownTimeout,
		Server: &http.Server{
			Handler: handler, MaxHeaderBytes: e.headerBytes, ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		},
	}
}

// addEndpoints serves metrics and probes on every replica. They start before the caches, and stop last.
func (p deps) addEndpoints(ctx context.Context) error {
	if err := p.addEndpoint(ctx, p.config.healthEndpoint(), nil, p.ProbeHandler()); err != nil || !p.config.Metrics.Enabled {
		return err
	}
	handler, err := p.config.metricsHandler(p.cluster, p.refusals)
	if err != nil {
		return err
	}
	return p.addEndpoint(ctx, p.config.metricsEndpoint(), p.config.Metrics.tlsConfig(p.certs.Certificate), handler)
}

func (p deps) addEndpoint(ctx context.Context, ep endpoint, tlsConfig *tls.Config, handler http.Handler) error {
	listener, err := ep.listen(ctx, tlsConfig, p.refusals)
	if err != nil {
		return err
	}
	return p.Add(ep.newServer(handler, listener, 10*time.Second))
}
