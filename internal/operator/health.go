package operator

import (
	"errors"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// addHealth has the kubelet restart a process whose dispatcher or one of whose reconciles hangs: it would renew its Lease for ever.
// /healthz/dispatcher says how long that has lasted.
func (p *parts) addHealth() error {
	return p.AddHealthzCheck("dispatcher", every(p.dispatcher.board.Healthy, p.CheckReconciles))
}

// every returns a check that fails with what all checks say that fail.
func every(checks ...healthz.Checker) healthz.Checker {
	return func(request *http.Request) error {
		errs := make([]error, 0, len(checks))
		for _, check := range checks {
			errs = append(errs, check(request))
		}
		return errors.Join(errs...)
	}
}
