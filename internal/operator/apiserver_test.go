package operator

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// apiServer answers requests for readiness and for discovery with these codes in turn, and repeats the last one.
func apiServer(t *testing.T, readiness, groups []int) *rest.Config {
	t.Helper()
	var asked [2]atomic.Int32
	next := func(codes []int, asked *atomic.Int32) int { return codes[min(int(asked.Add(1)), len(codes))-1] }
	server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		writer.Header().Set("Content-Type", "application/json")
		if request.URL.Path == "/readyz" {
			writer.WriteHeader(next(readiness, &asked[0]))
			return
		}
		writer.WriteHeader(next(groups, &asked[1]))
		_, _ = writer.Write([]byte(`{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`))
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func TestStartWaitsUntilTheAPIServerIsReady(t *testing.T) {
	const ready, unavailable, forbidden = http.StatusOK, http.StatusServiceUnavailable, http.StatusForbidden
	for name, c := range map[string]struct {
		readiness, groups []int
		patience          time.Duration
		warnings          int
		err               string
	}{
		"ready":                       {[]int{ready}, []int{ready}, time.Minute, 0, ""},
		"ready later":                 {[]int{unavailable, unavailable, ready}, []int{ready}, time.Minute, 1, ""},
		"ready, but discovery is not": {[]int{ready}, []int{unavailable, ready}, time.Minute, 1, ""},
		"readiness may not be read":   {[]int{forbidden}, []int{ready}, time.Minute, 0, ""},
		"never ready": {[]int{unavailable}, []int{ready}, 10 * time.Millisecond, 1,
			"does the kubeconfig name the right cluster?"},
		"never tells what it serves, either": {[]int{ready}, []int{unavailable}, 10 * time.Millisecond, 1, "the API server is not ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var output strings.Builder
			err := awaitAPIServer(t.Context(), apiServer(t, c.readiness, c.groups), c.patience, slog.New(slog.NewTextHandler(&output, nil)))
			if got := strings.Count(output.String(), "waiting for the API server"); got != c.warnings {
				t.Errorf("warned %d times, want %d", got, c.warnings)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
		})
	}
}

// A signal to stop is no failure, however early it comes.
func TestStopBeforeTheAPIServerIsReady(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var output strings.Builder
	server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, _ *http.Request) {
		stop()
		writer.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	env := Environment{Cluster: &rest.Config{Host: server.URL}, Log: slog.New(slog.NewTextHandler(&output, nil))}
	if err := Run(ctx, Defaults(), env); err != nil {
		t.Errorf("got %v", err)
	}
	if got := output.String(); !strings.Contains(got, "stopped before it had started") || strings.Contains(got, "WARN") {
		t.Errorf("logged %s", got)
	}
}
