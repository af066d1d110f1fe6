package kit

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// The objects of one namespace block all workers that it gets.
func TestControllerKeepsItsLastWorkerForOtherNamespaces(t *testing.T) {
	objects := []client.Object{configMap("signalled", nil), configMap("calm", nil)}
	for n := range 10 {
		object := configMap(fmt.Sprint(n), nil)
		object.Namespace = "storm"
		objects = append(objects, object)
	}
	w := newOperatorHarness(t, Options{}, objects...)
	blocked, free, signal, done := make(chan string, 10), make(chan struct{}), &Trigger{}, make(reconciledNames, 100)
	err := New[*corev1.ConfigMap](w.Operator, "test-last-worker").Concurrency(2).TriggeredBy(signal).
		Build(Func[*corev1.ConfigMap](func(_ context.Context, object *corev1.ConfigMap) (Result, error) {
			if object.Namespace == "storm" {
				blocked <- object.Name
				<-free
				return Done(), nil
			}
			return done.Reconcile(t.Context(), object)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer close(free)
	w.start(t)
	done.awaitStart(t, signal)
	for n := range 10 {
		signal.Now(types.NamespacedName{Namespace: "storm", Name: fmt.Sprint(n)})
	}
	<-blocked
	signal.Now(types.NamespacedName{Namespace: "demo", Name: "calm"})
	for {
		select {
		case name := <-done:
			if name == "calm" {
				return
			}
		case <-time.After(20 * time.Second):
			t.Fatal("an object waits for those of another namespace")
		}
	}
}

// Namespaces whose objects are left alone need no worker.
func TestOnlyNamespacesWhoseObjectsAreReconciledCount(t *testing.T) {
	for _, leftAlone := range []bool{false, true} {
		object := configMap("a", func(made *corev1.ConfigMap) {
			made.Annotations = map[string]string{"swarm.io/paused": fmt.Sprint(leftAlone)}
		})
		subject := &adapter[*corev1.ConfigMap]{
			name: "test", client: fake.NewClientBuilder().WithObjects(object).Build(), finalizer: &finalizer[*corev1.ConfigMap]{},
			filters: []filter{pausedFilter("swarm.io/paused", nil)}, inFlight: &inFlight{}, namespaces: &activeNamespaces{},
			reconciler: Func[*corev1.ConfigMap](func(context.Context, *corev1.ConfigMap) (Result, error) { return Done(), nil }),
		}
		if _, err := subject.Reconcile(t.Context(), keyOf(object.Namespace, object.Name)); err != nil {
			t.Fatal(err)
		}
		if counts := subject.namespaces.hasOthers("else"); counts == leftAlone {
			t.Errorf("paused %t, and the namespace counts: %t", leftAlone, counts)
		}
	}
}
