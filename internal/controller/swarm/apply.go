package swarm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// apply writes the difference by server-side apply, and deletes only objects that are unchanged since they were read. A StatefulSet that
// the API server refuses does not block the other agent types, and an Agent whose name is taken does not block the other agents. Any
// other failure ends it.
func (r *reconciler) apply(ctx context.Context, swarm *v1alpha1.Swarm, plan Plan) error {
	var rejected []error
	for _, object := range plan.Apply {
		err := r.applyObject(ctx, swarm, object)
		if affectsOnlyPart(object, err) {
			rejected = append(rejected, err)
			continue
		}
		if err != nil {
			return err // this may pass, while a refusal is permanent
		}
	}
	if err := errors.Join(rejected...); err != nil {
		return err
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

// affectsOnlyPart reports whether an object concerns only a part of the swarm, which waits for a user.
func affectsOnlyPart(object client.Object, err error) bool {
	switch object.(type) {
	case *appsv1.StatefulSet:
		return isInvalid(err)
	case *v1alpha1.Agent:
		return isNameTaken(err)
	}
	return false
}

// isInvalid reports whether the API server has refused the content of an object, and would refuse it again.
func isInvalid(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || isTypedPatchError(err)
}

// isTypedPatchError reports whether the API server could not parse an applied object, such as one with two volumes of the same name. It
// returns an internal error without a reason.
func isTypedPatchError(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && strings.Contains(status.Status().Message, "failed to create typed patch object")
}

// needsUser reports whether only a user can resolve the error: by a change of the Swarm, or of the object whose name the Swarm needs.
func needsUser(err error) bool { return isNameTaken(err) || isInvalid(err) }

func isNameTaken(err error) bool {
	_, taken := errors.AsType[nameTakenError](err)
	return taken
}

func (r *reconciler) applyObject(ctx context.Context, swarm *v1alpha1.Swarm, object client.Object) error {
	applied := &unstructured.Unstructured{Object: fieldsOf(object)}
	applied.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	unstructured.RemoveNestedField(applied.Object, "metadata", "creationTimestamp")
	existing, err := r.checkOwner(ctx, swarm, object)
	if err != nil {
		return err
	}
	if existing != "" {
		applied.SetUID(existing) // the API server refuses to write to any other
	}
	if err := r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(name),
		client.ForceOwnership); err != nil {
		return fmt.Errorf("apply %s %q: %w", applied.GetKind(), object.GetName(), err)
	}
	return nil
}

// checkOwner returns the UID of the object to be written, if it exists, and an error if the swarm does not own it. Server-side apply
// would take over an object of the user, which would be deleted with the swarm. It reads past the cache, which may be stale. There may be
// a thousand Agents, so those are read from the cache, and written with the UID found there.
func (r *reconciler) checkOwner(ctx context.Context, swarm *v1alpha1.Swarm, object client.Object) (types.UID, error) {
	kind, reader := object.GetObjectKind().GroupVersionKind(), r.apiReader
	var existing client.Object = &metav1.PartialObjectMetadata{}
	if _, isAgent := object.(*v1alpha1.Agent); isAgent {
		existing, reader = &v1alpha1.Agent{}, r.client
	}
	existing.GetObjectKind().SetGroupVersionKind(kind)
	err := reader.Get(ctx, client.ObjectKeyFromObject(object), existing)
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read %s %q: %w", kind.Kind, object.GetName(), err)
	}
	return existing.GetUID(), checkController(swarm, kind.Kind, existing)
}

// nameTakenError is the error for an object that is not the swarm's but has the name of one that the swarm needs.
type nameTakenError string

func (n nameTakenError) Error() string { return string(n) }

// checkController accepts objects that the swarm controls, and those that have no controller and carry its label: they belonged to an
// earlier Swarm that was deleted with --cascade=orphan, or were labeled by a user to hand them over.
func checkController(swarm *v1alpha1.Swarm, kind string, existing client.Object) error {
	owner := metav1.GetControllerOf(existing)
	switch {
	case owner != nil && owner.UID == swarm.UID:
		return nil
	case owner != nil:
		return nameTakenError(fmt.Sprintf("%s %q exists and belongs to %s %q: delete it, or give the Swarm another name", kind,
			existing.GetName(), owner.Kind, owner.Name))
	case existing.GetLabels()[v1alpha1.LabelSwarm] == swarm.Name:
		return nil
	}
	return nameTakenError(fmt.Sprintf("%s %q exists and does not belong to this Swarm: rename or delete it, give the Swarm another name, or let the Swarm take it over with the label %s=%s",
		kind, existing.GetName(), v1alpha1.LabelSwarm, swarm.Name))
}
