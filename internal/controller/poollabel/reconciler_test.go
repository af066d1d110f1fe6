package poollabel

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// noPools answers the list of the pools created for a workload, for which the fake has no index.
func noPools(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
	return nil
}

// The port at which workers acknowledge may be missing from what the cache keeps of a large StatefulSet, and a pool would never get it.
func TestNoPoolIsCreatedForAWorkloadThatIsTooLarge(t *testing.T) {
	for event, annotations := range map[string]map[string]string{
		"PoolMade": nil, "PoolRefused": {v1alpha1.AnnotationTooLarge: "true"},
	} {
		scheme := runtime.NewScheme()
		if err := v1alpha1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		recorder := events.NewFakeRecorder(1)
		r := &reconciler{
			client:   fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{List: noPools}).Build(),
			recorder: recorder,
		}
		workload := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "w", UID: "1", Labels: map[string]string{v1alpha1.LabelPool: "p"}, Annotations: annotations,
		}}
		if _, err := r.Reconcile(t.Context(), workload); err != nil {
			t.Fatal(err)
		}
		if told := <-recorder.Events; !strings.Contains(told, event) {
			t.Errorf("event %q, want %s", told, event)
		}
		err := r.client.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "p"}, &v1alpha1.WorkerPool{})
		if apierrors.IsNotFound(err) != (event == "PoolRefused") {
			t.Errorf("%s: %v", event, err)
		}
	}
}
