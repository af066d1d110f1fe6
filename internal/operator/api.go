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

// An httpAPIServer serves the introspection API on every replica. It listens on the pod's loopback only, where `kubectl port-forward`
// arrives, because it speaks plain HTTP: callers' tokens never reach a network.
type httpAPIServer struct {
	handler http.Handler
	port    int
}

// Start implements manager.Runnable.
func (w httpAPIServer) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(w.port)))
	if err != nil {
		return fmt.Errorf("open api.port: %w", err)
	}
	httpServer := manager.Server{Name: "api", Server: httpapi.NewServer(w.handler), Listener: listener, ShutdownTimeout: new(3 * time.Second)}
	return httpServer.Start(ctx)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (httpAPIServer) NeedLeaderElection() bool { return false }

// addAPI uses connections that do not end with leadership, as the link does: a standby answers as well.
func (p deps) addAPI() error {
	authorizer, err := p.config.newAuthorizer(p.cluster)
	if err != nil {
		return err
	}
	return p.Add(httpAPIServer{port: p.config.API.Port, handler: httpapi.New(httpapi.Config{
		Reader: p.GetClient(), Namespaces: p.config.namespaceNames(), Authorizer: authorizer, Log: p.env.Log, Refusals: p.refusals,
	})})
}

// newAuthorizer reviews callers or, if the operator may not, has them review themselves.
func (c Config) newAuthorizer(cluster *rest.Config) (httpapi.Authorizer, error) {
	if c.isNamespaced() {
		cluster = rest.AnonymousClientConfig(cluster)
	}
	apiConfig := rest.AddUserAgent(rest.CopyConfig(cluster), "api")
	tokens, tokensErr := authentication.NewForConfig(apiConfig)
	access, accessErr := authorization.NewForConfig(apiConfig)
	if err := errors.Join(tokensErr, accessErr); err != nil {
		return nil, fmt.Errorf("make clients for the reviews of callers: %w", err)
	}
	if c.isNamespaced() {
		return httpapi.SelfAuthorizer{Authentication: tokens.RESTClient(), Authorization: access.RESTClient()}, nil
	}
	return httpapi.DelegatedAuthorizer{Tokens: tokens.TokenReviews(), Access: access.SubjectAccessReviews()}, nil
}

// A getCertificateFunc is chosen when a client connects.
type getCertificateFunc = func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// tlsConfig returns how the metrics are served; nil for plain HTTP.
func (m Metrics) tlsConfig(getCertificate getCertificateFunc) *tls.Config {
	if !m.Secure {
		return nil
	}
	config := &tls.Config{GetCertificate: getCertificate}
	disableHTTP2(config)
	return config
}

// metricsHandler serves callers whom the API server authenticates and allows to read them, unless configured otherwise. controller-runtime
// has a filter for that, but it depends on the API server's library.
func (c Config) metricsHandler(cluster *rest.Config, refusals *limit.Refusals) (http.Handler, error) {
	handler := promhttp.HandlerFor(ctrlmetrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	if c.Metrics.Secure {
		authorizer, err := c.newAuthorizer(cluster)
		if err != nil {
			return nil, err
		}
		handler = httpapi.Protect(authorizer, refusals, handler)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", handler)
	return mux, nil
}
