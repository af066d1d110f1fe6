package kit

import (
	"maps"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// probes are the checks of an Operator.
type probes struct {
	live, ready map[string]healthz.Checker
}

// AddHealthzCheck implements manager.Manager.
func (o *Operator) AddHealthzCheck(name string, check healthz.Checker) error {
	if err := o.Manager.AddHealthzCheck(name, check); err != nil {
		return err
	}
	o.probes.live = withCheck(o.probes.live, name, check)
	return nil
}

// AddReadyzCheck implements manager.Manager.
func (o *Operator) AddReadyzCheck(name string, check healthz.Checker) error {
	if err := o.Manager.AddReadyzCheck(name, check); err != nil {
		return err
	}
	o.probes.ready = withCheck(o.probes.ready, name, check)
	return nil
}

// withCheck returns the checks with one more. Handlers that were created before do not have it.
func withCheck(checks map[string]healthz.Checker, name string, check healthz.Checker) map[string]healthz.Checker {
	extended := maps.Clone(checks)
	if extended == nil {
		extended = map[string]healthz.Checker{}
	}
	extended[name] = check
	return extended
}

// ProbeHandler serves the checks that were added so far at /healthz and /readyz, and each of them below that, as the manager does at its
// HealthProbeBindAddress. It is for programs that bound the connections to their probes, which the manager does not.
func (o *Operator) ProbeHandler() http.Handler {
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{"/healthz": o.probes.live, "/readyz": o.probes.ready} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler)
	}
	return mux
}
