package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/swarm-io/swarm-operator/internal/httpapi"
	"github.com/swarm-io/swarm-operator/internal/limit"
)

// A window is the introspection API at its port, on every replica. It is open to the pod's own loopback only, where `kubectl
// port-forward` arrives, because what it serves is plain HTTP: so the tokens of callers are on no network.
type window struct {
	handler http.Handler
	port    int
}

// Start implements manager.Runnable.
func (w window) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(w.port)))
	if err != nil {
		return fmt.Errorf("open api.port: %w", err)
	}
	served := manager.Server{Name: "api", Server: httpapi.NewServer(w.handler), Listener: listener, ShutdownTimeout: new(3 * time.Second)}
	return served.Start(ctx)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (window) NeedLeaderElection() bool { return false }

// addAPI has its reviews on connections that do not end with leadership, as the link has: a standby answers as well.
func (p parts) addAPI() error {
	judge, err := p.config.judge(p.cluster)
	if err != nil {
		return err
	}
	return p.Add(window{port: p.config.API.Port, handler: httpapi.New(httpapi.Config{
		Reader: p.GetClient(), Namespaces: p.config.namespaces(), Judge: judge, Log: p.around.Log, Refusals: p.refusals,
	})})
}

// judge asks about callers, or has them ask about themselves where it may not.
func (c Config) judge(cluster *rest.Config) (httpapi.Judge, error) {
	if c.confined() {
		cluster = rest.AnonymousClientConfig(cluster)
	}
	own := rest.AddUserAgent(rest.CopyConfig(cluster), "api")
	tokens, unidentified := authentication.NewForConfig(own)
	access, unauthorized := authorization.NewForConfig(own)
	if err := errors.Join(unidentified, unauthorized); err != nil {
		return nil, fmt.Errorf("make clients for the reviews of callers: %w", err)
	}
	if c.confined() {
		return httpapi.Selves{Authentication: tokens.RESTClient(), Authorization: access.RESTClient()}, nil
	}
	return httpapi.Reviews{Tokens: tokens.TokenReviews(), Access: access.SubjectAccessReviews()}, nil
}

// A certificate is chosen when a client connects.
type certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// tls is how the metrics are served; nil for plain HTTP.
func (m Metrics) tls(shown certificate) *tls.Config {
	if !m.Secure {
		return nil
	}
	config := &tls.Config{GetCertificate: shown}
	http1(config)
	return config
}

// metrics are for callers whom the API server knows and allows to see them, unless told otherwise. controller-runtime has a filter for that, which would
// bring the API server's library with it.
func (c Config) metrics(cluster *rest.Config, refusals *limit.Refusals) (http.Handler, error) {
	handler := promhttp.HandlerFor(ctrlmetrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	if c.Metrics.Secure {
		judge, err := c.judge(cluster)
		if err != nil {
			return nil, err
		}
		handler = httpapi.Protect(judge, refusals, handler)
	}
	paths := http.NewServeMux()
	paths.Handle("/metrics", handler)
	return paths, nil
}
