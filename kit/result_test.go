package kit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var webApps = schema.GroupResource{Group: "example.swarm.io", Resource: "webapps"}

func staleVersionError() error {
	return apierrors.NewConflict(webApps, "a", errors.New("the object has been modified"))
}

func fieldConflictError() error {
	return apierrors.NewApplyConflict([]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict}}, "conflict with kubectl")
}

func TestK07_TypedResultsAreJudged(t *testing.T) {
	retry := reconcile.Result{Requeue: true}
	broken := errors.New("broken")
	forbidden := apierrors.NewForbidden(webApps, "a", broken)
	for name, test := range map[string]struct {
		result Result
		err    error
		want   reconcileOutcome
	}{
		"done":            {Done(), nil, reconcileOutcome{outcome: done}},
		"the zero result": {Result{}, nil, reconcileOutcome{outcome: done}},
		"requeue":         {Requeue("PodPending"), nil, reconcileOutcome{outcome: requeue, reason: "PodPending", result: retry}},
		"requeue after": {RequeueAfter(time.Second, "Backoff"), nil,
			reconcileOutcome{outcome: requeueAfter, reason: "Backoff", result: reconcile.Result{RequeueAfter: time.Second}}},
		"requeue after nought": {RequeueAfter(0, "Now"), nil, reconcileOutcome{outcome: requeueAfter, reason: "Now",
			result: reconcile.Result{RequeueAfter: time.Millisecond}}},
		"skipped":             {skip("Paused"), nil, reconcileOutcome{outcome: skipped, reason: "Paused"}},
		"error":               {Done(), broken, reconcileOutcome{outcome: failed, reason: "Error", err: broken}},
		"error beats result":  {RequeueAfter(time.Hour, "Later"), broken, reconcileOutcome{outcome: failed, reason: "Error", err: broken}},
		"error of the server": {Done(), forbidden, reconcileOutcome{outcome: failed, reason: "Forbidden", err: forbidden}},
		"stale object": {Done(), fmt.Errorf("write status: %w", staleVersionError()),
			reconcileOutcome{outcome: conflict, reason: "Conflict", result: retry}},
		"not leading": {Done(), fmt.Errorf("given up: %w", ErrNotLeading),
			reconcileOutcome{outcome: fenced, reason: "NotLeading", result: retry}},
		"cancelled by itself": {Done(), context.Canceled, reconcileOutcome{outcome: failed, reason: "Error", err: context.Canceled}},
		"stopping":            {Done(), errStopping, reconcileOutcome{outcome: skipped, reason: "Stopping", result: retry}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outcomeOf(test.result, test.err, 0); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestLowPriorityComesAfterEverythingElse(t *testing.T) {
	for _, answer := range []reconcile.Result{
		outcomeOf(RequeueAfter(time.Second, "Later").LowPriority(), nil, 0).result,
		outcomeOf(RequeueAfter(0, "Now").LowPriority(), nil, 0).result,
	} {
		if answer.Priority == nil || *answer.Priority >= 0 || answer.RequeueAfter == 0 {
			t.Errorf("got %+v", answer)
		}
	}
	if answer := outcomeOf(RequeueAfter(time.Second, "Later"), nil, 0).result; answer.Priority != nil {
		t.Errorf("an ordinary look changes the priority: %+v", answer)
	}
}

func TestTerminalErrorIsNotTriedAgain(t *testing.T) {
	got := outcomeOf(Done(), fmt.Errorf("plan: %w", Terminal(errors.New("no such image"))), time.Minute)
	if got.outcome != terminal || got.result != (reconcile.Result{}) || got.err == nil {
		t.Errorf("got %+v", got)
	}
	if Terminal(nil) != nil {
		t.Error("no error became one")
	}
}

func TestFieldConflictIsAnError(t *testing.T) {
	if got := outcomeOf(Done(), fieldConflictError(), 0); got.outcome != failed {
		t.Errorf("a field that another manager owns is cured by reading again? got %+v", got)
	}
}

func TestResyncIsNeverLate(t *testing.T) {
	const period = 30 * time.Second
	seen := map[time.Duration]bool{}
	for range 1000 {
		after := outcomeOf(Done(), nil, period).result.RequeueAfter
		if after > period || after < period*9/10 {
			t.Fatalf("resync after %s, wanted a tenth less than %s at most", after, period)
		}
		seen[after] = true
	}
	if len(seen) < 100 {
		t.Errorf("only %d different delays: all objects would come at once", len(seen))
	}
	if after := outcomeOf(skip("Paused"), nil, period).result.RequeueAfter; after != 0 {
		t.Errorf("what is paused is looked at after %s", after)
	}
}

func TestReasonsAreBounded(t *testing.T) {
	var words reasonLimiter
	for reason, want := range map[string]string{
		"": "", "PodPending": "PodPending", "waiting for pod-1": otherReason, "pod-1": otherReason, "Pod1": "Pod1",
	} {
		if got := words.labelFor(reason); got != want {
			t.Errorf("%q became %q, want %q", reason, got, want)
		}
	}
	for i := range 1000 {
		words.labelFor(fmt.Sprint("Reason", i))
	}
	if len(words.seen) != maxReasons || words.labelFor("Reason999") != otherReason || words.labelFor("PodPending") != "PodPending" {
		t.Errorf("%d reasons", len(words.seen))
	}
}

func TestObjectOfATerminatingNamespaceIsLeftToGoWithIt(t *testing.T) {
	err := apierrors.NewForbidden(corev1.Resource("pods"), "a", errors.New("being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	if got := outcomeOf(Done(), err, time.Hour); got != (reconcileOutcome{outcome: skipped, reason: "NamespaceTerminating"}) {
		t.Errorf("got %+v", got)
	}
}

func TestNoPeriodIsNoResync(t *testing.T) {
	for _, period := range []time.Duration{0, -time.Hour} {
		if got := jitter(period); got != 0 {
			t.Errorf("period %s: looks again after %s", period, got)
		}
	}
}
