// Package history records the values that a field of one object takes, as a watch sees them.
//
// It promises to miss no change from the moment it is asked until the spec ends, as long as the watch stays; when the watch ends earlier, it
// says so. It only reads.
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
)

// A History holds values in order and without repetitions.
type History[V comparable] struct {
	lock   sync.Mutex
	values []V
	cut    bool // the watch has ended too early
}

// Follow records a field of the object, which may not exist yet, until the spec or the container that it is called for ends.
func Follow[T client.Object, V comparable](ctx context.Context, api client.WithWatch, list client.ObjectList, object T, field func(T) V) *History[V] {
	GinkgoHelper()
	h := &History[V]{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	only := &client.ListOptions{Raw: &metav1.ListOptions{FieldSelector: "metadata.name=" + object.GetName()}}
	events, err := api.Watch(ctx, list, only, client.InNamespace(object.GetNamespace()))
	Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range events.ResultChan() {
			if seen, ok := event.Object.(T); ok && event.Type != watch.Deleted {
				h.add(field(seen))
			}
		}
		h.lock.Lock()
		defer h.lock.Unlock()
		h.cut = ctx.Err() == nil
	}()
	DeferCleanup(func() {
		cancel()
		<-done
	})
	return h
}

func (h *History[V]) add(value V) {
	h.lock.Lock()
	defer h.lock.Unlock()
	if len(h.values) == 0 || h.values[len(h.values)-1] != value {
		h.values = append(h.values, value)
	}
}

// List returns the values so far. It has the signature that Eventually takes.
func (h *History[V]) List(g Gomega) []V {
	h.lock.Lock()
	defer h.lock.Unlock()
	g.Expect(h.cut).To(BeFalse(), "the watch has ended")
	return slices.Clone(h.values)
}
