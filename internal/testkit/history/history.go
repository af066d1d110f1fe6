// Package history records the values that a field of one object takes, or a count of all objects of a kind, as a watch sees them.
//
// It promises to miss no change from its start until the end of the spec, and reports it if the watch ends earlier. It only reads.
package history

import (
	"context"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// A History holds values in order, without consecutive duplicates.
type History[V comparable] struct {
	lock        sync.Mutex
	values      []V
	interrupted bool // the watch has ended too early
}

// Watch records a field of the object, which may not exist yet, until the spec or the container in which it is called ends.
func Watch[T client.Object, V comparable](ctx context.Context, api client.WithWatch, list client.ObjectList, object T,
	field func(T) V) *History[V] {
	GinkgoHelper()
	h := &History[V]{}
	nameSelector := &client.ListOptions{Raw: &metav1.ListOptions{FieldSelector: "metadata.name=" + object.GetName()}}
	h.watch(ctx, api, list, func(event watch.Event) {
		if seen, ok := event.Object.(T); ok && event.Type != watch.Deleted {
			h.add(field(seen))
		}
	}, nameSelector, client.InNamespace(object.GetNamespace()))
	return h
}

// WatchAll records a value of all objects of a kind in a namespace, by name, for as long as Watch does. Existing objects are added one
// after the other.
func WatchAll[T client.Object, V comparable](
	ctx context.Context, api client.WithWatch, list client.ObjectList, namespace string, value func(map[string]T) V,
) *History[V] {
	GinkgoHelper()
	h, objects := &History[V]{}, map[string]T{}
	h.watch(ctx, api, list, func(event watch.Event) {
		object, ok := event.Object.(T)
		if !ok {
			return
		}
		if event.Type == watch.Deleted {
			delete(objects, object.GetName())
		} else {
			objects[object.GetName()] = object
		}
		h.add(value(objects))
	}, client.InNamespace(namespace))
	return h
}

// watch handles every event until the spec or container ends.
func (h *History[V]) watch(
	ctx context.Context, api client.WithWatch, list client.ObjectList, handle func(watch.Event), which ...client.ListOption,
) {
	GinkgoHelper()
	testcluster.Watch(ctx, api, list, testcluster.WatchHandler{Event: handle, Interrupted: func() {
		h.lock.Lock()
		defer h.lock.Unlock()
		h.interrupted = true
	}}, which...)
}

func (h *History[V]) add(value V) {
	h.lock.Lock()
	defer h.lock.Unlock()
	if len(h.values) == 0 || h.values[len(h.values)-1] != value {
		h.values = append(h.values, value)
	}
}

// List returns the values so far. It has a signature that Eventually accepts.
func (h *History[V]) List(g Gomega) []V {
	h.lock.Lock()
	defer h.lock.Unlock()
	g.Expect(h.interrupted).To(BeFalse(), "the watch has ended")
	return slices.Clone(h.values)
}
