package kit

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A Scope is the namespaces that controllers work in, chosen by their labels. Both may change at any time: a namespace
// that comes into scope has its objects reconciled at once, one that leaves it is left alone from then on, finalizers
// included, because from then on they may be another operator's.
type Scope struct {
	lock     sync.RWMutex
	selector labels.Selector
	changed  []chan event.GenericEvent
}

// NewScope is the namespaces whose labels the selector matches.
func NewScope(selector labels.Selector) *Scope { return &Scope{selector: selector} }

// Select chooses other namespaces from now on.
func (s *Scope) Select(selector labels.Selector) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.selector = selector
	for _, listener := range s.changed {
		select {
		case listener <- event.GenericEvent{Object: &corev1.Namespace{}}:
		default: // one is waiting there already, and whoever takes it will see the new selector
		}
	}
}

// Includes tells whether a namespace is in scope.
func (s *Scope) Includes(namespace *corev1.Namespace) bool {
	s.lock.RLock()
	defer s.lock.RUnlock()
	return s.selector.Matches(labels.Set(namespace.Labels))
}

// changes is told whenever the selector is another one.
func (s *Scope) changes() <-chan event.GenericEvent {
	s.lock.Lock()
	defer s.lock.Unlock()
	listener := make(chan event.GenericEvent, 1)
	s.changed = append(s.changed, listener)
	return listener
}

// guard keeps reconcilers out of the other namespaces, and tells whoever wants to know. Objects without a namespace are always in scope.
func (s *Scope) guard(reader client.Reader, outside func(types.NamespacedName)) guard {
	return func(ctx context.Context, object client.Object) (string, error) {
		if object.GetNamespace() == "" {
			return "", nil
		}
		namespace := &corev1.Namespace{}
		err := reader.Get(ctx, client.ObjectKey{Name: object.GetNamespace()}, namespace)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("read namespace %q: %w", object.GetNamespace(), err)
		}
		// A namespace that the cache does not know yet will have its objects reconciled when it does.
		if err == nil && s.Includes(namespace) {
			return "", nil
		}
		if outside != nil {
			outside(client.ObjectKeyFromObject(object))
		}
		return "OutOfScope", nil
	}
}

// within finds all objects of a kind in a namespace, in all of them if it has no name.
func within[T client.Object](reader client.Reader, scheme *runtime.Scheme) func(context.Context, client.Object) []reconcile.Request {
	return func(ctx context.Context, namespace client.Object) []reconcile.Request {
		list, err := listOf(blank[T](), scheme)
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

func listOf(kind client.Object, scheme *runtime.Scheme) (client.ObjectList, error) {
	of, err := apiutil.GVKForObject(kind, scheme)
	if err != nil {
		return nil, err
	}
	list, err := scheme.New(of.GroupVersion().WithKind(of.Kind + "List"))
	if err != nil {
		return nil, err
	}
	return list.(client.ObjectList), nil
}
