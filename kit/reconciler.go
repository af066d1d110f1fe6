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

// A Reconciler makes the world as an object wants it. It receives the current state, not what happened: it must come to the same
// end however often and from wherever it begins. The object is its own copy.
type Reconciler[T client.Object] interface {
	Reconcile(ctx context.Context, object T) (Result, error)
}

// Func is a Reconciler that needs nothing but a function.
type Func[T client.Object] func(ctx context.Context, object T) (Result, error)

// Reconcile calls the function.
func (f Func[T]) Reconcile(ctx context.Context, object T) (Result, error) { return f(ctx, object) }

// A control stands between the queue and a Reconciler: it turns keys into objects, keeps its hands off what is paused or
// out of scope, holds the finalizer, and turns results into answers for the queue.
type control[T client.Object] struct {
	name       string
	client     client.Client
	reconciler Reconciler[T]
	guards     []guard
	finalizer  *finalizer[T]
	resync     time.Duration
	gone       Forgetter
	reasons    vocabulary
	inFlight   *inFlight
	tenants    *tenants
}

// A guard gives the reason why an object is left alone, "" when it is not.
type guard func(ctx context.Context, object client.Object) (reason string, err error)

// Reconcile implements controller-runtime's reconcile.Reconciler.
func (c *control[T]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	defer c.inFlight.begin(c.name)()
	object := blank[T]()
	if err := c.client.Get(ctx, request.NamespacedName, object); err != nil {
		return reconcile.Result{}, c.missing(ctx, request.NamespacedName, err)
	}
	result, err := c.safely(ctx, object)
	if err != nil && ctx.Err() != nil {
		err = errStopping
	}
	verdict := judge(result, err, c.resync)
	if verdict.outcome != skipped {
		c.tenants.add(request.Namespace)
	}
	results.WithLabelValues(c.name, string(verdict.outcome), c.reasons.label(verdict.reason)).Inc()
	log.FromContext(ctx).V(1).Info("reconciled", "outcome", verdict.outcome, "reason", verdict.reason, "after", verdict.answer.RequeueAfter.String())
	return verdict.answer, verdict.err
}

// missing passes on that an object is gone.
func (c *control[T]) missing(ctx context.Context, name types.NamespacedName, err error) error {
	if apierrors.IsNotFound(err) && c.gone != nil {
		return c.gone(ctx, name)
	}
	return client.IgnoreNotFound(err)
}

// safely turns a panic into an error, so that one odd object does not stop the work on all others.
func (c *control[T]) safely(ctx context.Context, object T) (result Result, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			panics.WithLabelValues(c.name).Inc()
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	return c.reconcile(ctx, object)
}

func (c *control[T]) reconcile(ctx context.Context, object T) (Result, error) {
	if letGo, err := c.finalizer.letGo(ctx, object); err != nil || letGo {
		return skip("NamespaceTerminating"), err
	}
	for _, leftAlone := range c.guards {
		if reason, err := leftAlone(ctx, object); err != nil || reason != "" {
			return c.finalizer.leave(object, reason), err
		}
	}
	onward, result, err := c.finalizer.settle(ctx, object)
	if !onward || err != nil {
		return result, err
	}
	return c.reconciler.Reconcile(ctx, object)
}

// paused leaves an object alone while its annotation says so. Hold, if there is one, is called.
func paused(annotation string, hold func(types.NamespacedName)) guard {
	return func(_ context.Context, object client.Object) (string, error) {
		if object.GetAnnotations()[annotation] != "true" {
			return "", nil
		}
		if hold != nil {
			hold(client.ObjectKeyFromObject(object))
		}
		return "Paused", nil
	}
}

// blank is an empty object: T is a pointer, and a nil one cannot be filled.
func blank[T client.Object]() T {
	var none T
	return reflect.New(reflect.TypeOf(none).Elem()).Interface().(T)
}
