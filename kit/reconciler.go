package kit

import (
	"context"
	"fmt"
	"reflect"
	"runtime/debug"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A Reconciler brings the cluster to the state that an object asks for. It receives the current state, not what happened, and must come to
// the same result however often and from whatever state it starts. The object is a copy that it may change.
type Reconciler[T client.Object] interface {
	Reconcile(ctx context.Context, object T) (Result, error)
}

// Func is a function that is a Reconciler.
type Func[T client.Object] func(ctx context.Context, object T) (Result, error)

// Reconcile calls the function.
func (f Func[T]) Reconcile(ctx context.Context, object T) (Result, error) { return f(ctx, object) }

// An adapter connects the queue with a Reconciler: it turns keys into objects, skips objects that are paused or out of scope, manages the
// finalizer, and turns results into answers for the queue.
type adapter[T client.Object] struct {
	name       string
	client     client.Client
	reconciler Reconciler[T]
	filters    []filter
	finalizer  *finalizer[T]
	resync     time.Duration
	onDeleted  Forgetter
	reasons    reasonLimiter
	inFlight   *inFlight
	namespaces *activeNamespaces
}

// A filter returns the reason why an object is skipped, "" when it is not.
type filter func(ctx context.Context, object client.Object) (reason string, err error)

// Reconcile implements controller-runtime's reconcile.Reconciler.
func (c *adapter[T]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	defer c.inFlight.begin(c.name)()
	object := newObject[T]()
	if err := c.client.Get(ctx, request.NamespacedName, object); err != nil {
		return reconcile.Result{}, c.handleMissing(ctx, request.NamespacedName, err)
	}
	result, err := c.reconcileRecovering(ctx, object)
	if err != nil && ctx.Err() != nil {
		err = errStopping
	}
	final := outcomeOf(result, err, c.resync)
	if final.outcome != skipped {
		c.namespaces.add(request.Namespace)
	}
	results.WithLabelValues(c.name, string(final.outcome), c.reasons.labelFor(final.reason)).Inc()
	log.FromContext(ctx).V(1).Info("reconciled", "outcome", final.outcome, "reason", final.reason, "after", final.result.RequeueAfter.String())
	return final.result, final.err
}

// handleMissing reports to the OnDeleted callback that an object is gone.
func (c *adapter[T]) handleMissing(ctx context.Context, name types.NamespacedName, err error) error {
	if apierrors.IsNotFound(err) && c.onDeleted != nil {
		return c.onDeleted(ctx, name)
	}
	return client.IgnoreNotFound(err)
}

// reconcileRecovering turns a panic into an error, so that one odd object does not stop the work on all others.
func (c *adapter[T]) reconcileRecovering(ctx context.Context, object T) (result Result, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			panics.WithLabelValues(c.name).Inc()
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	return c.reconcile(ctx, object)
}

func (c *adapter[T]) reconcile(ctx context.Context, object T) (Result, error) {
	if released, err := c.finalizer.releaseIfTerminating(ctx, object); err != nil || released {
		return skip("NamespaceTerminating"), err
	}
	for _, skipReason := range c.filters {
		if reason, err := skipReason(ctx, object); err != nil || reason != "" {
			return c.finalizer.skipResult(object, reason), err
		}
	}
	proceed, result, err := c.finalizer.beforeReconcile(ctx, object)
	if !proceed || err != nil {
		return result, err
	}
	return c.reconciler.Reconcile(ctx, object)
}

// pausedFilter skips objects that have the paused annotation. It calls hold, if there is one.
func pausedFilter(annotation string, onPaused func(types.NamespacedName)) filter {
	return func(_ context.Context, object client.Object) (string, error) {
		if object.GetAnnotations()[annotation] != "true" {
			return "", nil
		}
		if onPaused != nil {
			onPaused(client.ObjectKeyFromObject(object))
		}
		return "Paused", nil
	}
}

// newObject returns an empty object: T is a pointer, and a nil pointer cannot be decoded into.
func newObject[T client.Object]() T {
	var zero T
	return reflect.New(reflect.TypeOf(zero).Elem()).Interface().(T)
}
