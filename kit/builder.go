package kit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// The back-off of one object. The maximum is a minute, so that a repaired cluster is noticed soon.
const (
	baseRetryDelay = 10 * time.Millisecond
	maxRetryDelay  = time.Minute
)

// A Mapper returns the objects to reconcile when another object changes.
type Mapper func(ctx context.Context, object client.Object) []types.NamespacedName

// A Builder builds the one controller of a kind, or a secondary one.
type Builder[T client.Object] struct {
	operator        *Operator
	name            string
	secondary       bool
	includeDeleting bool
	owns            []client.Object
	watches         []watch
	scope           *Scope
	concurrency     int
	resync          time.Duration
	finalizer       finalizer[T]
	predicates      []predicate.Predicate
	triggers        []*Trigger
	onDeleted       Forgetter
	onOutOfScope    func(types.NamespacedName)
	onPaused        func(types.NamespacedName)
	namespaces      *activeNamespaces
	problems        []error
}

type watch struct {
	object     client.Object
	mapper     Mapper
	predicates []predicate.Predicate
}

// New returns a Builder for the controller of kind T. The name appears in logs, metrics and events.
func New[T client.Object](operator *Operator, name string) *Builder[T] {
	return &Builder[T]{operator: operator, name: name, concurrency: 1, namespaces: &activeNamespaces{}}
}

// Secondary lets a kind have this controller and another. Use it only if the two controllers write different parts of the object: kit
// cannot check this, and two that write the same part undo each other's work.
func (b *Builder[T]) Secondary() *Builder[T] {
	b.secondary = true
	return b
}

// Owns reconciles an object whenever an object of this kind that it controls changes.
func (b *Builder[T]) Owns(kind client.Object) *Builder[T] {
	b.owns = append(b.owns, kind)
	return b
}

// Watches reconciles the objects that the mapper names whenever an object of this other kind changes, in a way that all predicates pass.
func (b *Builder[T]) Watches(kind client.Object, mapper Mapper, predicates ...predicate.Predicate) *Builder[T] {
	b.watches = append(b.watches, watch{kind, mapper, predicates})
	return b
}

// Namespaces limits the controller to the namespaces in scope. Without a scope it works in all namespaces.
func (b *Builder[T]) Namespaces(scope *Scope) *Builder[T] {
	b.scope = scope
	return b
}

// Concurrency sets how many objects are reconciled at once; the default is 1. No two reconciles of one object run at once. When there are
// objects of several namespaces, none of these namespaces occupies the last worker.
func (b *Builder[T]) Concurrency(workers int) *Builder[T] {
	if workers < 1 {
		b.problems = append(b.problems, fmt.Errorf("concurrency %d: at least 1", workers))
	}
	b.concurrency = workers
	return b
}

// ResyncPeriod reconciles each object again after the period, or a random bit earlier, when its last reconcile was Done. It bounds how long
// drift that causes no event remains.
func (b *Builder[T]) ResyncPeriod(period time.Duration) *Builder[T] {
	b.resync = period
	return b
}

// Finalizer delays the deletion of objects until the Cleaner returns Cleaned. The id has the form group/name.
func (b *Builder[T]) Finalizer(id string, clean Cleaner[T]) *Builder[T] {
	if group, name, ok := strings.Cut(id, "/"); !ok || group == "" || name == "" {
		b.problems = append(b.problems, fmt.Errorf("finalizer %q: not of the form group/name", id))
	}
	b.finalizer = finalizer[T]{id: id, clean: clean, writer: b.operator.GetClient()}
	return b
}

// IncludeDeleting also reconciles objects that are being deleted, and delays none of these deletions. It is for controllers that only
// observe.
func (b *Builder[T]) IncludeDeleting() *Builder[T] {
	b.includeDeleting = true
	return b
}

// Predicates replace Changes: they choose which changes of the object itself cause a reconcile.
func (b *Builder[T]) Predicates(predicates ...predicate.Predicate) *Builder[T] {
	b.predicates = predicates
	return b
}

// TriggeredBy reconciles the objects that the trigger names.
func (b *Builder[T]) TriggeredBy(trigger *Trigger) *Builder[T] {
	b.triggers = append(b.triggers, trigger)
	return b
}

// A Forgetter drops what is kept in memory about an object. It is called again when it fails.
type Forgetter func(ctx context.Context, name types.NamespacedName) error

// Forget turns a function that cannot fail into a Forgetter.
func Forget(forget func(name types.NamespacedName)) Forgetter {
	return func(_ context.Context, name types.NamespacedName) error {
		forget(name)
		return nil
	}
}

// OnDeleted is called instead of the reconciler for an object that is not in the cache.
func (b *Builder[T]) OnDeleted(forget Forgetter) *Builder[T] {
	b.onDeleted = forget
	return b
}

// OnOutOfScope is called instead of the reconciler for an object that is not in scope.
func (b *Builder[T]) OnOutOfScope(forget func(name types.NamespacedName)) *Builder[T] {
	b.onOutOfScope = forget
	return b
}

// OnPaused is called instead of the reconciler for an object with the paused annotation. It may change state in memory, but must not write.
func (b *Builder[T]) OnPaused(onPaused func(name types.NamespacedName)) *Builder[T] {
	b.onPaused = onPaused
	return b
}

// Build adds the controller to the operator.
func (b *Builder[T]) Build(reconciler Reconciler[T]) error {
	if err := errors.Join(b.problems...); err != nil {
		return fmt.Errorf("build controller %q: %w", b.name, err)
	}
	if err := b.claimKind(); err != nil {
		return fmt.Errorf("build controller %q: %w", b.name, err)
	}
	if err := b.controllerBuilder().Complete(b.newAdapter(reconciler)); err != nil {
		return fmt.Errorf("build controller %q: %w", b.name, err)
	}
	panics.WithLabelValues(b.name) // a counter that is absent until its first event hides that event from rate()
	return nil
}

// claimKind claims the kind, unless this controller is secondary.
func (b *Builder[T]) claimKind() error {
	b.operator.requireCache(newObject[T]())
	if b.secondary {
		return nil
	}
	return b.operator.claimKind(b.name, newObject[T]())
}

func (b *Builder[T]) newAdapter(reconciler Reconciler[T]) *adapter[T] {
	filters := []filter{pausedFilter(b.operator.prefix+"paused", b.onPaused)}
	if b.scope != nil {
		filters = append(filters, b.scope.filter(b.operator.GetClient(), b.onOutOfScope))
		b.finalizer.terminating, b.finalizer.recheckAfter = b.scope.isTerminatingFunc(b.operator.GetClient()), b.scope.recheckInterval()
	}
	b.finalizer.includeDeleting = b.includeDeleting
	return &adapter[T]{
		name: b.name, client: b.operator.GetClient(), reconciler: reconciler,
		filters: filters, finalizer: &b.finalizer, resync: b.resync, onDeleted: b.onDeleted, inFlight: &b.operator.inFlight,
		namespaces: b.namespaces,
	}
}

// controllerBuilder registers the watches with controller-runtime. It registers the caches that must be synced first with the operator.
func (b *Builder[T]) controllerBuilder() *builder.Builder {
	if len(b.predicates) == 0 {
		b.predicates = []predicate.Predicate{Changes()}
	}
	ctrl := builder.ControllerManagedBy(b.operator).Named(b.name).
		For(newObject[T](), builder.WithPredicates(b.predicates...)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: b.concurrency,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](baseRetryDelay, maxRetryDelay),
			NewQueue:                b.newQueue,
		})
	for _, kind := range b.owns {
		b.operator.requireCache(kind)
		ctrl.Owns(kind)
	}
	for _, w := range b.watches {
		b.operator.requireCache(w.object)
		ctrl.Watches(w.object, handler.EnqueueRequestsFromMapFunc(w.mapper.requests), builder.WithPredicates(w.predicates...))
	}
	for _, trigger := range b.triggers {
		ctrl.WatchesRawSource(trigger)
	}
	if b.scope != nil {
		b.watchScope(ctrl)
	}
	return ctrl
}

func (b *Builder[T]) newQueue(name string,
	limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return newFairQueue(name, limiter, newFairOrder(b.concurrency, b.namespaces))
}

// deletionStarted passes updates in which the deletion of a namespace begins.
var deletionStarted = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(change event.UpdateEvent) bool {
		return change.ObjectOld.GetDeletionTimestamp().IsZero() && !change.ObjectNew.GetDeletionTimestamp().IsZero()
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// watchScope reconciles objects that may have come into scope, because the labels of a namespace or the selector changed. It also
// reconciles the objects of a namespace that is being deleted.
func (b *Builder[T]) watchScope(ctrl *builder.Builder) {
	enqueueAll := handler.EnqueueRequestsFromMapFunc(requestsIn[T](b.operator.GetClient(), b.operator.GetScheme()))
	for _, kind := range b.scope.watchedKinds {
		b.operator.requireCache(kind)
		ctrl.Watches(kind, enqueueAll, builder.WithPredicates(predicate.Or(predicate.LabelChangedPredicate{}, deletionStarted)))
	}
	ctrl.WatchesRawSource(source.Channel(b.scope.subscribe(), enqueueAll))
}

func (m Mapper) requests(ctx context.Context, object client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, name := range m(ctx, object) {
		requests = append(requests, reconcile.Request{NamespacedName: name})
	}
	return requests
}
