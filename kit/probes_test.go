package kit

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// startedManager takes checks until it has started.
type startedManager struct {
	manager.Manager
	err error
}

func (m startedManager) AddHealthzCheck(string, healthz.Checker) error { return m.err }
func (m startedManager) AddReadyzCheck(string, healthz.Checker) error  { return m.err }

func TestProbesServeTheChecksOfAnOperator(t *testing.T) {
	o := &Operator{Manager: startedManager{}}
	broken := func(*http.Request) error { return errors.New("broken") }
	err := errors.Join(o.AddHealthzCheck("ping", healthz.Ping), o.AddReadyzCheck("ping", healthz.Ping), o.AddReadyzCheck("caches", broken))
	if err != nil {
		t.Fatal(err)
	}
	probes := o.ProbeHandler()
	for path, want := range map[string]int{
		"/healthz": http.StatusOK, "/healthz/": http.StatusOK, "/healthz/ping": http.StatusOK, "/healthz/caches": http.StatusNotFound,
		"/readyz": http.StatusInternalServerError, "/readyz/caches": http.StatusInternalServerError, "/readyz/ping": http.StatusOK,
		"/metrics": http.StatusNotFound,
	} {
		answer := httptest.NewRecorder()
		probes.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if answer.Code != want {
			t.Errorf("%s: got %d, want %d", path, answer.Code, want)
		}
	}
}

func TestProbesDoNotServeChecksThatTheManagerRefuses(t *testing.T) {
	late := errors.New("too late")
	o := &Operator{Manager: startedManager{err: late}}
	broken := func(*http.Request) error { return errors.New("broken") }
	if err := o.AddHealthzCheck("late", broken); !errors.Is(err, late) {
		t.Errorf("got %v", err)
	}
	if err := o.AddReadyzCheck("late", broken); !errors.Is(err, late) {
		t.Errorf("got %v", err)
	}
	answer := httptest.NewRecorder()
	o.ProbeHandler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	if answer.Code != http.StatusOK {
		t.Errorf("got %d", answer.Code)
	}
}
