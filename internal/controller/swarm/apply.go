package swarm

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// apply writes the difference by server-side apply, and deletes only what is still the object that was looked at.
func (r *reconciler) apply(ctx context.Context, plan Plan) error {
	for _, object := range plan.Apply {
		applied := &unstructured.Unstructured{Object: content(object)}
		applied.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
		unstructured.RemoveNestedField(applied.Object, "metadata", "creationTimestamp")
		if err := r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(name), client.ForceOwnership); err != nil {
			return fmt.Errorf("apply %s %q: %w", applied.GetKind(), object.GetName(), err)
		}
	}
	for _, object := range plan.Delete {
		uid := object.GetUID()
		err := r.client.Delete(ctx, object, client.Preconditions{UID: &uid}, client.PropagationPolicy("Background"))
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete %s: %w", identity(object), err)
		}
	}
	return nil
}
