package operator

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/cache/ondemand"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/kit"
)

// newLimitedClients creates the client of all controllers, and their live reader. Both share one limit for all kinds, which is fair between
// namespaces: many requests of one do not delay the others.
func newLimitedClients(budget limit.Budget) kit.NewClientsFunc {
	limiter := limit.NewFairLimiter(budget)
	return func(cluster *rest.Config, options client.Options) (client.Client, client.Reader, error) {
		if options.HTTPClient == nil {
			made, err := rest.HTTPClientFor(cluster)
			if err != nil {
				return nil, nil, fmt.Errorf("make client of the API server: %w", err)
			}
			options.HTTPClient = made
		}
		httpClient := *options.HTTPClient
		httpClient.Transport = &fairTransport{next: baseTransport(&httpClient), limiter: limiter}
		options.HTTPClient = &httpClient
		cached, err := client.New(cluster, options)
		if err != nil {
			return nil, nil, err
		}
		options.Cache = nil
		live, err := client.New(cluster, options)
		if err != nil {
			return nil, nil, err
		}
		return ondemand.New(cached, live), live, nil
	}
}

func baseTransport(from *http.Client) http.RoundTripper {
	if from.Transport == nil {
		return http.DefaultTransport
	}
	return from.Transport
}

// requestBudget is the limit for all controllers together.
func (c Config) requestBudget() limit.Budget {
	return limit.Budget{PerSecond: float64(c.Client.QPS), Burst: c.Client.Burst, Share: c.Limits.RequestShare}
}

// fairTransport holds each request until the turn of its namespace. A rate limiter of client-go would not know the namespace.
type fairTransport struct {
	next    http.RoundTripper
	limiter *limit.FairLimiter
}

// RoundTrip implements http.RoundTripper.
func (f *fairTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := f.limiter.Wait(request.Context(), namespaceOfPath(request.URL.Path)); err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, fmt.Errorf("wait until client.qps allows the request: %w", err)
	}
	return f.next.RoundTrip(request)
}

// WrappedRoundTripper lets client-go find the transport behind this one.
func (f *fairTransport) WrappedRoundTripper() http.RoundTripper { return f.next }

// namespaceOfPath returns the namespace that a request to the API server is about, "" for the cluster. Requests for a Namespace object
// count as its own.
func namespaceOfPath(path string) string {
	_, after, _ := strings.Cut(path, "/namespaces/")
	name, _, _ := strings.Cut(after, "/")
	return name
}
