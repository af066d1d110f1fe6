package kit

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// ownerIndex indexes objects by the UID of their controller: names are reused, UIDs are not.
const ownerIndex = "kit.controller-uid"

// IndexOwner lets ListOwned find objects of this kind. Call it before the manager starts.
func IndexOwner(ctx context.Context, mgr manager.Manager, kind client.Object) error {
	if operator, ok := mgr.(*Operator); ok {
		operator.requireCache(kind)
	}
	err := mgr.GetFieldIndexer().IndexField(ctx, kind, ownerIndex, func(object client.Object) []string {
		if owner := metav1.GetControllerOf(object); owner != nil {
			return []string{string(owner.UID)}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index %T by owner: %w", kind, err)
	}
	return nil
}

// ListOwned lists the objects that the owner controls. It uses an index of the cache: no request, no search through all objects.
func ListOwned(ctx context.Context, reader client.Reader, owner client.Object, list client.ObjectList) error {
	err := reader.List(ctx, list, client.InNamespace(owner.GetNamespace()), client.MatchingFields{ownerIndex: string(owner.GetUID())})
	if err != nil {
		return fmt.Errorf("list %T owned by %s: %w", list, owner.GetName(), err)
	}
	return nil
}

// OwnerReference returns what a server-side apply sets on a child, so that it is deleted with its owner.
func OwnerReference(owner client.Object, scheme *runtime.Scheme) (*metav1ac.OwnerReferenceApplyConfiguration, error) {
	gvk, err := apiutil.GVKForObject(owner, scheme)
	if err != nil {
		return nil, fmt.Errorf("refer to owner %s: %w", owner.GetName(), err)
	}
	return metav1ac.OwnerReference().
		WithAPIVersion(gvk.GroupVersion().String()).WithKind(gvk.Kind).
		WithName(owner.GetName()).WithUID(owner.GetUID()).
		WithController(true).WithBlockOwnerDeletion(true), nil
}
