package kit

import (
	"errors"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A Result says when to reconcile the object again, and why. The zero Result is Done.
type Result struct {
	outcome     outcome
	delay       time.Duration
	reason      string
	lowPriority bool
}

// An outcome is how a reconcile ended, as the metric names it.
type outcome string

const (
	done         outcome = "done"
	requeue      outcome = "requeue"
	requeueAfter outcome = "requeue_after"
	skipped      outcome = "skipped"  // paused, out of scope, being deleted and not ours: no write was made
	conflict     outcome = "conflict" // another client wrote first
	fenced       outcome = "fenced"   // no longer the leader
	terminal     outcome = "terminal" // needs a human
	failed       outcome = "error"
)

// Done means that the cluster is in the state that the object asks for. It resets the back-off.
func Done() Result { return Result{} }

// Requeue requests another reconcile soon: at once the first time, later each time after that, until a reconcile is Done. The reason is one
// word, such as "PodPending".
func Requeue(reason string) Result { return Result{outcome: requeue, reason: reason} }

// RequeueAfter requests another reconcile after the delay. It resets the back-off. The reason is one word.
func RequeueAfter(delay time.Duration, reason string) Result {
	return Result{outcome: requeueAfter, delay: delay, reason: reason}
}

// LowPriority makes the next reconcile of the object wait for all objects in the queue.
func (r Result) LowPriority() Result {
	r.lowPriority = true
	return r
}

func skip(reason string) Result { return Result{outcome: skipped, reason: reason} }

// Terminal marks an error that only a human can fix: it is logged and counted, and not retried until the object changes. Set a condition
// that informs the user.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return reconcile.TerminalError(err)
}

// errStopping replaces errors that occur while the program stops, because stopping causes them.
var errStopping = errors.New("stopping")

// A reconcileOutcome is the outcome of a reconcile for the metric, the log and the queue.
type reconcileOutcome struct {
	outcome outcome
	reason  string
	result  reconcile.Result
	err     error
}

// outcomeOf turns what a reconciler returned into an outcome. An object that is Done is reconciled again after resync.
func outcomeOf(result Result, err error, resync time.Duration) reconcileOutcome {
	retry := reconcile.Result{Requeue: true} // the only way to ask for a rate-limited retry without an error
	switch {
	case err == nil:
		return result.reconcileOutcome(retry, resync)
	case errors.Is(err, ErrNotLeading):
		return reconcileOutcome{outcome: fenced, reason: "NotLeading", result: retry}
	case errors.Is(err, errStopping):
		return reconcileOutcome{outcome: skipped, reason: "Stopping", result: retry}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconcileOutcome{outcome: skipped, reason: "NamespaceTerminating"} // the object is deleted with it
	case isStaleWrite(err):
		return reconcileOutcome{outcome: conflict, reason: string(metav1.StatusReasonConflict), result: retry}
	case errors.Is(err, reconcile.TerminalError(nil)):
		return reconcileOutcome{outcome: terminal, reason: reasonOf(err), err: err}
	}
	return reconcileOutcome{outcome: failed, reason: reasonOf(err), err: err}
}

func (r Result) reconcileOutcome(retry reconcile.Result, resync time.Duration) reconcileOutcome {
	switch r.outcome {
	case requeue:
		return reconcileOutcome{outcome: requeue, reason: r.reason, result: retry}
	case requeueAfter:
		return reconcileOutcome{outcome: requeueAfter, reason: r.reason,
			result: reconcile.Result{RequeueAfter: max(r.delay, time.Millisecond), Priority: r.priority()}}
	case skipped:
		return reconcileOutcome{outcome: skipped, reason: r.reason}
	}
	return reconcileOutcome{outcome: done, reason: r.reason, result: reconcile.Result{RequeueAfter: jitter(resync)}}
}

// priority returns the priority of the next reconcile; nil keeps the current one.
func (r Result) priority() *int {
	if !r.lowPriority {
		return nil
	}
	return new(handler.LowPriority)
}

// jitter shortens a delay by up to a tenth and never lengthens it: the resync period bounds how long drift remains.
func jitter(period time.Duration) time.Duration {
	if period <= 0 {
		return 0
	}
	return period - rand.N(period/10+1)
}

// isStaleWrite reports whether a conflict comes from a stale resource version, and not from a field that another manager owns. Reading
// again helps only with the first.
func isStaleWrite(err error) bool {
	if !apierrors.IsConflict(err) {
		return false
	}
	_, isFieldConflict := apierrors.StatusCause(err, metav1.CauseTypeFieldManagerConflict)
	return !isFieldConflict
}

// reasonOf returns the API server's one-word reason, if the error comes from the API server.
func reasonOf(err error) string {
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	return "Error"
}
