package spread

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/swarm-io/swarm-operator/internal/spread/plan"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
)

// makePlan plans. It depends only on its arguments.
func makePlan(snap workloadSnapshot, t target) plan.Plan {
	input := snap.input
	if last := t.state.lastRefusal; last.isActive(snap, t.now) {
		input.Refusal = last.Refusal
	}
	return plan.New(input, t.now)
}

// setError reports what failed and will be retried.
func setError(p *plan.Plan, failed error) {
	if p.Decision.Status != split.Invalid {
		p.Decision.Reason = "trying again: " + stableMessage(failed)
	}
}

// stableMessage returns a stable text for an error: a different reason would cause another write, which would trigger the waiting retry.
func stableMessage(err error) string {
	var status apierrors.APIStatus
	switch {
	case !errors.As(err, &status):
		return "the API server did not answer"
	case status.Status().Code >= http.StatusInternalServerError, status.Status().Code == http.StatusTooManyRequests:
		return "the API server says " + string(status.Status().Reason)
	}
	return err.Error()
}
