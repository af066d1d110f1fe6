package operator

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

// A history holds the values that a field of one object has had, in order and without repetitions, as a watch has seen them.
type history[V comparable] struct {
	lock   sync.Mutex
	values []V
	cut    bool // the watch has ended too early
}

// follow records a field until the spec, or the container that it is called for, ends. Values are seen from the next change on, or from the
// creation of the object.
func follow[T client.Object, V comparable](ctx context.Context, list client.ObjectList, object T, field func(T) V) *history[V] {
	GinkgoHelper()
	h := &history[V]{}
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

func (h *history[V]) add(value V) {
	h.lock.Lock()
	defer h.lock.Unlock()
	if len(h.values) == 0 || h.values[len(h.values)-1] != value {
		h.values = append(h.values, value)
	}
}

// list is for Eventually.
func (h *history[V]) list(g Gomega) []V {
	h.lock.Lock()
	defer h.lock.Unlock()
	g.Expect(h.cut).To(BeFalse(), "the watch has ended")
	return slices.Clone(h.values)
}
