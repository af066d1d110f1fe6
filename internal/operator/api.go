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

// A window serves the introspection API on every replica. It listens on the pod's loopback only, where `kubectl port-forward` arrives,
// because it speaks plain HTTP: callers' tokens never reach a network.
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

// addAPI uses connections that do not end with leadership, as the link does: a standby answers as well.
func (p parts) addAPI() error {
	judge, err := p.config.judge(p.cluster)
	if err != nil {
		return err
	}
	return p.Add(window{port: p.config.API.Port, handler: httpapi.New(httpapi.Config{
		Reader: p.GetClient(), Namespaces: p.config.namespaces(), Judge: judge, Log: p.around.Log, Refusals: p.refusals,
	})})
}

// judge reviews callers or, if the operator may not, has them review themselves.
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

// tls returns how the metrics are served; nil for plain HTTP.
func (m Metrics) tls(shown certificate) *tls.Config {
	if !m.Secure {
		return nil
	}
	config := &tls.Config{GetCertificate: shown}
	http1(config)
	return config
}

// metrics serves callers whom the API server authenticates and allows to read them, unless configured otherwise. controller-runtime
// has a filter for that, but it depends on the API server's library.
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
