package operator

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
	"github.com/swarm-io/swarm-operator/kit"
)

// healthManager serves its checks as controller-runtime does.
type healthManager struct {
	clientManager
	checks map[string]healthz.Checker
}

func (m healthManager) AddHealthzCheck(name string, check healthz.Checker) error {
	m.checks[name] = check
	return nil
}

func TestHealthOfTheDispatcherIsThatOfItsStepsAndOfAllReconciles(t *testing.T) {
	passing, stuck := func(*http.Request) error { return nil }, func(*http.Request) error { return errors.New("stuck for 3m1s") }
	failing := func(*http.Request) error { return errors.New("has not returned for 15m1s") }
	for _, c := range []struct {
		name   string
		checks []healthz.Checker
		code   int
		says   []string
	}{
		{"all is well", []healthz.Checker{passing, passing}, http.StatusOK, []string{"ok"}},
		{"the dispatcher hangs", []healthz.Checker{stuck, passing}, http.StatusInternalServerError, []string{"stuck for 3m1s"}},
		{"a reconcile hangs", []healthz.Checker{passing, failing}, http.StatusInternalServerError, []string{"has not returned for 15m1s"}},
		{"both hang", []healthz.Checker{stuck, failing}, http.StatusInternalServerError,
			[]string{"stuck for 3m1s", "has not returned for 15m1s"}},
	} {
		answer := httptest.NewRecorder()
		probes := &healthz.Handler{Checks: map[string]healthz.Checker{"dispatcher": allOf(c.checks...)}}
		probes.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/dispatcher", nil))
		for _, want := range c.says {
			if text := answer.Body.String(); answer.Code != c.code || !strings.Contains(text, want) {
				t.Errorf("%s: got %d, %q", c.name, answer.Code, text)
			}
		}
	}
}

func TestHealthOfTheDispatcherIsProbed(t *testing.T) {
	manager := healthManager{checks: map[string]healthz.Checker{}}
	made := newTestDeps(func(*Config) {})
	made.Operator = &kit.Operator{Manager: manager}
	made.dispatchRunner = &dispatchRunner{dispatcher: dispatch.New(dispatch.Config{Metrics: prometheus.NewRegistry()})}
	if err := made.addHealth(); err != nil {
		t.Fatal(err)
	}
	check, probed := manager.checks["dispatcher"]
	if !probed {
		t.Fatalf("probed are %v", manager.checks)
	}
	if err := check(nil); err != nil {
		t.Errorf("of a dispatcher that does not run: %v", err)
	}
}
