package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	v1 "github.com/swarm-io/swarm-operator/examples/webapp/v1"
)

// A registry is a service outside of the cluster that knows the address of every WebApp. Kubernetes cannot remove its entries when a WebApp
// is deleted: that is what the finalizer is for. The zero value is no registry, and every call succeeds.
type registry struct{ url string }

var httpClient = &http.Client{Timeout: 3 * time.Second}

func (r registry) register(ctx context.Context, app *v1.WebApp) error {
	return r.call(ctx, http.MethodPut, app, address(app))
}

func (r registry) unregister(ctx context.Context, app *v1.WebApp) error {
	return r.call(ctx, http.MethodDelete, app, "")
}

func (r registry) call(ctx context.Context, method string, app *v1.WebApp, body string) error {
	if r.url == "" {
		return nil
	}
	url := fmt.Sprintf("%s/apps/%s/%s", r.url, app.Namespace, app.Name)
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	defer response.Body.Close()
	gone := method == http.MethodDelete && response.StatusCode == http.StatusNotFound
	if response.StatusCode >= http.StatusMultipleChoices && !gone {
		return fmt.Errorf("registry: %s %s: %s", method, url, response.Status)
	}
	return nil
}
