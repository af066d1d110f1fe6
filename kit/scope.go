package kit

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A Scope is the set of namespaces that controllers work in, chosen by their labels. Both may change at any time: a namespace that comes
// into scope has its objects reconciled at once. One that leaves scope is skipped from then on, finalizers included, because its objects
// may now belong to another operator. Finalizers do not hold up the deletion of a namespace.
type Scope struct {
	lock         sync.RWMutex
	selector     labels.Selector
	listeners    []chan event.GenericEvent
	getNamespace namespaceGetter
	watchedKinds []client.Object // its changes may bring a namespace into scope
}

// A namespaceGetter finds a namespace by name.
type namespaceGetter func(ctx context.Context, reader client.Reader, name string) (*corev1.Namespace, error)

// NewScope returns the scope of namespaces whose labels the selector matches.
func NewScope(selector labels.Selector) *Scope {
	return &Scope{selector: selector, getNamespace: readNamespace, watchedKinds: []client.Object{&corev1.Namespace{}}}
}

// NewNamedScope returns the scope of the named namespaces. It neither reads nor watches namespaces, for operators without permission to do
// so. All that it knows about a namespace is the label with its name, which every namespace has.
func NewNamedScope(names ...string) *Scope {
	return &Scope{selector: nameSelector(names), getNamespace: assumeNamespace}
}

func nameSelector(names []string) labels.Selector {
	if len(names) == 0 {
		return labels.Nothing()
	}
	requirement, err := labels.NewRequirement(corev1.LabelMetadataName, selection.In, names)
	if err != nil {
		return labels.Nothing() // a name that is not a valid label value is not the name of a namespace
	}
	return labels.NewSelector().Add(*requirement)
}

func readNamespace(ctx context.Context, reader client.Reader, name string) (*corev1.Namespace, error) {
	namespace := &corev1.Namespace{}
	return namespace, reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
}

// assumeNamespace returns a namespace with the label that every namespace has.
func assumeNamespace(_ context.Context, _ client.Reader, name string) (*corev1.Namespace, error) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}}, nil
}

// SetSelector changes the selector.
func (s *Scope) SetSelector(selector labels.Selector) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.selector = selector
	for _, listener := range s.listeners {
		select {
		case listener <- event.GenericEvent{Object: &corev1.Namespace{}}:
		default: // a notification is already pending, and its receiver will see the new selector
		}
	}
}

// Includes reports whether a namespace is in scope.
func (s *Scope) Includes(namespace *corev1.Namespace) bool {
	s.lock.RLock()
	defer s.lock.RUnlock()
	return s.selector.Matches(labels.Set(namespace.Labels))
}

// IncludesNamed reports whether the named namespace is in scope. One that does not exist is not.
func (s *Scope) IncludesNamed(ctx context.Context, reader client.Reader, name string) (bool, error) {
	namespace, err := s.getNamespace(ctx, reader, name)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read namespace %q: %w", name, err)
	}
	return err == nil && s.Includes(namespace), nil
}

// recheckInterval returns how often to check skipped objects for the deletion of their namespace: 0 if that is an event.
func (s *Scope) recheckInterval() time.Duration {
	if len(s.watchedKinds) > 0 {
		return 0
	}
	return namespaceRecheckInterval
}

// namespaceRecheckInterval is how late an operator that may not watch namespaces learns that one is being deleted.
const namespaceRecheckInterval = 30 * time.Second

// isTerminatingFunc returns a function that reports whether the named namespace is being deleted. A scope of names has no right to
// read namespaces, so it tests whether the namespace accepts new objects.
func (s *Scope) isTerminatingFunc(c client.Client) func(context.Context, string) (bool, error) {
	if len(s.watchedKinds) == 0 {
		return func(ctx context.Context, name string) (bool, error) { return refusesNewObjects(ctx, c, name) }
	}
	return func(ctx context.Context, name string) (bool, error) {
		namespace, err := s.getNamespace(ctx, c, name)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("read namespace %q: %w", name, err)
		}
		return err == nil && !namespace.DeletionTimestamp.IsZero(), nil
	}
}

// refusesNewObjects reports whether the API server refuses new objects in a namespace because it is being deleted. An event is created in
// dry-run mode: every operator may create events.
func refusesNewObjects(ctx context.Context, c client.Writer, namespace string) (bool, error) {
	probe := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, GenerateName: "terminating-"},
		EventTime:           metav1.NowMicro(),
		ReportingController: "kit", ReportingInstance: "kit", Action: "Probe", Reason: "Probe", Type: corev1.EventTypeNormal,
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Namespace: namespace, Name: namespace},
	}
	err := c.Create(ctx, probe, client.DryRunAll)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return true, nil
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("create an event in namespace %q in dry-run mode: %w", namespace, err)
	}
	return false, nil
}

// subscribe returns a channel that is notified when the selector changes.
func (s *Scope) subscribe() <-chan event.GenericEvent {
	s.lock.Lock()
	defer s.lock.Unlock()
	listener := make(chan event.GenericEvent, 1)
	s.listeners = append(s.listeners, listener)
	return listener
}

// filter skips objects in other namespaces, and calls outside for them. Objects without a namespace are always in scope.
func (s *Scope) filter(reader client.Reader, onOutOfScope func(types.NamespacedName)) filter {
	return func(ctx context.Context, object client.Object) (string, error) {
		if object.GetNamespace() == "" {
			return "", nil
		}
		// If the cache does not know the namespace yet, its objects are reconciled once it does.
		if inScope, err := s.IncludesNamed(ctx, reader, object.GetNamespace()); err != nil || inScope {
			return "", err
		}
		if onOutOfScope != nil {
			onOutOfScope(client.ObjectKeyFromObject(object))
		}
		return "OutOfScope", nil
	}
}

// requestsIn lists all objects of a kind in a namespace, or in all of them if it has no name.
func requestsIn[T client.Object](reader client.Reader, scheme *runtime.Scheme) func(context.Context, client.Object) []reconcile.Request {
	return func(ctx context.Context, namespace client.Object) []reconcile.Request {
		list, err := newListOf(newObject[T](), scheme)
		if err != nil {
			return nil
		}
		if err := reader.List(ctx, list, client.InNamespace(namespace.GetName()), client.UnsafeDisableDeepCopy); err != nil {
			return nil // the cache knows the kind, or the controller would not run
		}
		var requests []reconcile.Request
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(item.(client.Object))})
			return nil
		})
		return requests
	}
}

func newListOf(kind client.Object, scheme *runtime.Scheme) (client.ObjectList, error) {
	gvk, err := apiutil.GVKForObject(kind, scheme)
	if err != nil {
		return nil, err
	}
	list, err := scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	return list.(client.ObjectList), nil
}
