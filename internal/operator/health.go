package operator

import (
	"errors"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// addHealth adds a liveness check that fails if the dispatcher or a reconcile hangs: such a process would renew its Lease forever.
// /healthz/dispatcher shows how long that has lasted.
func (p *deps) addHealth() error {
	return p.AddHealthzCheck("dispatcher", allOf(p.dispatchRunner.dispatcher.Healthy, p.CheckReconciles))
}

// allOf returns a check that fails with the errors of all checks.
func allOf(checks ...healthz.Checker) healthz.Checker {
	return func(request *http.Request) error {
		errs := make([]error, 0, len(checks))
		for _, check := range checks {
			errs = append(errs, check(request))
		}
		return errors.Join(errs...)
	}
}
