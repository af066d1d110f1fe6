package kit

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// pendingRetry is how long a Pending cleanup waits before the next try.
const pendingRetry = 5 * time.Second

// A Cleaner undoes the effects of an object outside of the cluster, or waits for them to end. It is called as often as necessary for
// objects that are being deleted and have the finalizer.
type Cleaner[T client.Object] func(ctx context.Context, object T) (Cleanup, error)

// A Cleanup is the outcome of a Cleaner: Continue, Cleaned, Pending or NotOurs.
type Cleanup struct {
	outcome cleanupOutcome
	reason  string
	after   time.Duration // retry delay of a pending cleanup
}

type cleanupOutcome int

const (
	notOurs cleanupOutcome = iota
	continued
	cleaned
	pending
)

// Continue means that the reconciler does the cleanup: it is called although the object is being deleted, and the finalizer stays.
func Continue() Cleanup { return Cleanup{outcome: continued} }

// Cleaned means that nothing is left: the finalizer is removed, and the object can be deleted.
func Cleaned() Cleanup { return Cleanup{outcome: cleaned} }

// Pending means that the cleanup is not finished: the Cleaner is called again in 5 seconds. The reason is one word.
func Pending(reason string) Cleanup { return PendingFor(pendingRetry, reason) }

// PendingFor is Pending with another delay, for a cleanup that works in batches.
func PendingFor(delay time.Duration, reason string) Cleanup {
	return Cleanup{outcome: pending, reason: reason, after: delay}
}

// NotOurs means that another party has to clean up: the finalizer stays, and nothing else happens.
func NotOurs() Cleanup { return Cleanup{outcome: notOurs} }

// A finalizer holds an object back until its Cleaner returns Cleaned. Without an id it only keeps the reconciler away from
// objects that are being deleted, so that it does not recreate what the garbage collector removes.
type finalizer[T client.Object] struct {
	id              string
	clean           Cleaner[T]
	writer          client.Writer
	includeDeleting bool // the reconciler also gets objects that are being deleted

	terminating  func(ctx context.Context, namespace string) (bool, error) // nil: never
	recheckAfter time.Duration                                             // for skipped objects; 0 if namespace deletion is an event
}

// isBlockingDeletion reports whether the finalizer blocks a deletion that has begun.
func (f *finalizer[T]) isBlockingDeletion(object T) bool {
	return !object.GetDeletionTimestamp().IsZero() && controllerutil.ContainsFinalizer(object, f.id)
}

// skipResult returns the result for an object that is skipped for this reason.
func (f *finalizer[T]) skipResult(object T, reason string) Result {
	if f.recheckAfter > 0 && reason != "" && f.isBlockingDeletion(object) {
		return RequeueAfter(f.recheckAfter, reason)
	}
	return skip(reason)
}

// releaseIfTerminating removes the finalizer of an object whose namespace is being deleted, and reports whether it did. Everything in the
// namespace is deleted anyway, so there is nothing to clean up, and neither a pause nor the scope may block the deletion of
// the namespace.
func (f *finalizer[T]) releaseIfTerminating(ctx context.Context, object T) (bool, error) {
	if f.terminating == nil || !f.isBlockingDeletion(object) {
		return false, nil
	}
	if terminating, err := f.terminating(ctx, object.GetNamespace()); err != nil || !terminating {
		return false, err
	}
	return true, f.remove(ctx, object)
}

// beforeReconcile runs before the reconciler, and reports whether to call it.
func (f *finalizer[T]) beforeReconcile(ctx context.Context, object T) (proceed bool, result Result, err error) {
	switch {
	case object.GetDeletionTimestamp().IsZero():
		return true, Done(), f.add(ctx, object)
	case f.includeDeleting && f.id == "":
		return true, Done(), nil
	case f.id == "" || !controllerutil.ContainsFinalizer(object, f.id):
		return false, skip("NotOurs"), nil
	}
	cleanup, err := f.clean(ctx, object)
	if err != nil {
		return false, Done(), fmt.Errorf("clean up: %w", err)
	}
	switch cleanup.outcome {
	case continued:
		return true, Done(), nil
	case cleaned:
		return false, skip("Cleaned"), f.remove(ctx, object)
	case pending:
		return false, RequeueAfter(cleanup.after, cleanup.reason), nil
	}
	return false, skip("NotOurs"), nil
}

// add adds the finalizer before anything is created for the object: whatever happens next, it can be cleaned up.
func (f *finalizer[T]) add(ctx context.Context, object T) error {
	if f.id == "" || controllerutil.ContainsFinalizer(object, f.id) {
		return nil
	}
	if err := f.patch(ctx, object, controllerutil.AddFinalizer); err != nil {
		return fmt.Errorf("add finalizer: %w", err)
	}
	return nil
}

func (f *finalizer[T]) remove(ctx context.Context, object T) error {
	if err := f.patch(ctx, object, controllerutil.RemoveFinalizer); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer: %w", err)
	}
	return nil
}

// patch includes the resource version: a merge patch replaces the whole list, including a finalizer that was added since we read it.
func (f *finalizer[T]) patch(ctx context.Context, object T, change func(client.Object, string) bool) error {
	before := object.DeepCopyObject().(client.Object)
	change(object, f.id)
	return f.writer.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
