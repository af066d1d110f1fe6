package kit

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestTriggerQueuesWhatItNames(t *testing.T) {
	signal, name := &Trigger{}, types.NamespacedName{Namespace: "demo", Name: "a"}
	signal.Now(name) // there is no listener yet, and that is no error
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := signal.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	signal.After(name, time.Hour)
	if queue.Len() != 0 {
		t.Error("it did not wait")
	}
	signal.Now(name)
	signal.Now(name)
	if queue.Len() != 1 {
		t.Errorf("the queue has %d, want 1", queue.Len())
	}
	if got, _ := queue.Get(); got.NamespacedName != name {
		t.Errorf("got %v", got)
	}
}

// emptyClient is a cluster without objects.
type emptyClient struct{ client.Client }

func (emptyClient) Get(_ context.Context, name client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(corev1.Resource("configmaps"), name.Name)
}

func TestOnDeletedIsCalledInsteadOfReconcile(t *testing.T) {
	var deleted []types.NamespacedName
	failed := errors.New("not yet")
	subject := &adapter[*corev1.ConfigMap]{
		inFlight: &inFlight{},
		name:     "test", client: emptyClient{}, finalizer: &finalizer[*corev1.ConfigMap]{},
		onDeleted: func(_ context.Context, name types.NamespacedName) error {
			deleted = append(deleted, name)
			return failed
		},
		reconciler: Func[*corev1.ConfigMap](func(context.Context, *corev1.ConfigMap) (Result, error) {
			t.Error("reconciled")
			return Done(), nil
		}),
	}
	name := types.NamespacedName{Namespace: "demo", Name: "a"}
	if _, err := subject.Reconcile(t.Context(), reconcile.Request{NamespacedName: name}); !errors.Is(err, failed) {
		t.Errorf("want it to be tried again: %v", err)
	}
	if len(deleted) != 1 || deleted[0] != name {
		t.Errorf("told %v", deleted)
	}
}
