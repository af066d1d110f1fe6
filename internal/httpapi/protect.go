package httpapi

import (
	"context"
	"net/http"

	"github.com/swarm-io/swarm-operator/internal/limit"
)

// Protect requires the right to get the requested path, by a rule with nonResourceURLs: this is how the API server protects its own
// metrics.
func Protect(authorizer Authorizer, refusals *limit.Refusals, handler http.Handler) http.Handler {
	auth := newAuthFilter(authorizer, refusals)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		err := auth.check(ctx, readCredential(r), permission{verb: "get", resource: r.URL.Path})
		if err == nil {
			handler.ServeHTTP(w, r)
			return
		}
		if statusOf(err) == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, oneLine(err), statusOf(err))
	})
}
