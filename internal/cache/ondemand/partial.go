package ondemand

import (
	"context"
	"fmt"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// maxPartialReads is how many objects of one list are read from the API server, each of up to 1.5 MiB. No Swarm has more agent types.
const maxPartialReads = 32

// isPartial reports whether the cache keeps only a part of an object that controllers compare whole. The readers of other marked
// objects leave those alone.
func isPartial(object client.Object) bool {
	if object.GetAnnotations()[v1alpha1.AnnotationTooLarge] == "" {
		return false
	}
	switch object.(type) {
	case *v1alpha1.Swarm, *v1alpha1.Agent, *v1alpha1.Task, *v1alpha1.WorkerPool, *v1alpha1.SwarmSnapshot, *appsv1.ControllerRevision:
		return true
	case *appsv1.StatefulSet:
		owner := metav1.GetControllerOfNoCopy(object)
		return owner != nil && owner.Kind == "Swarm"
	}
	return false
}

// readWhole replaces an object with the API server's version. It may share memory with the cache, which must not change.
func (r *onDemandClient) readWhole(ctx context.Context, key client.ObjectKey, into client.Object) error {
	reflect.ValueOf(into).Elem().SetZero()
	return r.live.Get(ctx, key, into)
}

// completeList reads the partial objects of a list. It is for lists of what an object controls, which are found by an index. Other lists
// are read for names, indexed fields, and what is kept of all objects.
func (r *onDemandClient) completeList(ctx context.Context, list client.ObjectList, options []client.ListOption) error {
	switch list.(type) {
	case *appsv1.StatefulSetList, *appsv1.ControllerRevisionList, *v1alpha1.AgentList:
	default:
		return nil
	}
	listOptions := (&client.ListOptions{}).ApplyOptions(options)
	if listOptions.Namespace == "" || listOptions.FieldSelector == nil {
		return nil
	}
	count := 0
	return meta.EachListItem(list, func(item runtime.Object) error {
		object, ok := item.(client.Object)
		if !ok || !isPartial(object) {
			return nil
		}
		if count++; count > maxPartialReads {
			return fmt.Errorf("namespace %q exceeds limits.cacheBytesPerNamespace, and more than %d large objects would have to be read: "+
				"delete some, or raise the limit", listOptions.Namespace, maxPartialReads)
		}
		if err := r.readWhole(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return fmt.Errorf("read past the cache: %w", err)
		}
		return nil
	})
}
