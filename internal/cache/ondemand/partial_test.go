package ondemand

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// partialCluster has a cache that keeps a part of what the API server holds, and counts live reads.
func partialCluster(t *testing.T, stored ...client.Object) (partial client.Client, reads *int) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	byOwner := func(object client.Object) []string {
		if owner := metav1.GetControllerOf(object); owner != nil {
			return []string{string(owner.UID)}
		}
		return nil
	}
	cache := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&appsv1.StatefulSet{}, "owner", byOwner)
	for _, object := range stored {
		kept := object.DeepCopyObject().(client.Object)
		kept.SetAnnotations(map[string]string{v1alpha1.AnnotationTooLarge: "true"})
		switch kept := kept.(type) {
		case *appsv1.StatefulSet:
			kept.Spec.ServiceName = ""
		case *v1alpha1.Swarm:
			kept.Spec.Agents = nil
		}
		cache.WithObjects(kept)
	}
	live := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored...).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			*reads++
			return inner.Get(ctx, key, into, options...)
		},
	})
	reads = new(int)
	return New(cache.Build(), live), reads
}

func newStatefulSets(kind string, count int) (sets []client.Object) {
	for n := range count {
		sets = append(sets, &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprint("w-", n), OwnerReferences: []metav1.OwnerReference{
				{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: "o", UID: "o", Controller: new(true)},
			}}, Spec: appsv1.StatefulSetSpec{ServiceName: "whole"},
		})
	}
	return sets
}

func TestPartialObjectsAreReadWhole(t *testing.T) {
	partial, reads := partialCluster(t, &v1alpha1.Swarm{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "s"}, Spec: v1alpha1.SwarmSpec{Agents: []v1alpha1.AgentType{{Type: "coder"}}},
	})
	found := &v1alpha1.Swarm{}
	if err := partial.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "s"}, found); err != nil {
		t.Fatal(err)
	}
	if len(found.Spec.Agents) != 1 || len(found.Annotations) != 0 || *reads != 1 {
		t.Errorf("found %+v after %d reads", found, *reads)
	}
}

// Objects that no controller of ours compares whole keep the mark for their readers.
func TestPartialWorkloadsOfOthersKeepTheirMark(t *testing.T) {
	partial, reads := partialCluster(t, newStatefulSets("Other", 1)...)
	found := &appsv1.StatefulSet{}
	if err := partial.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "w-0"}, found); err != nil {
		t.Fatal(err)
	}
	if found.Annotations[v1alpha1.AnnotationTooLarge] == "" || *reads != 0 {
		t.Errorf("found %+v after %d reads", found, *reads)
	}
}

func TestListsOfWhatASwarmControlsAreWhole(t *testing.T) {
	ofOwner := []client.ListOption{client.InNamespace("team"), client.MatchingFields{"owner": string(types.UID("o"))}}
	partial, reads := partialCluster(t, newStatefulSets("Swarm", maxPartialReads)...)
	list := &appsv1.StatefulSetList{}
	if err := partial.List(t.Context(), list, ofOwner...); err != nil {
		t.Fatal(err)
	}
	for n := range list.Items {
		if list.Items[n].Spec.ServiceName != "whole" {
			t.Errorf("%s is not whole", list.Items[n].Name)
		}
	}
	if len(list.Items) != maxPartialReads || *reads != maxPartialReads {
		t.Errorf("%d objects after %d reads", len(list.Items), *reads)
	}
	if err := partial.List(t.Context(), list, client.InNamespace("team")); err != nil || *reads != maxPartialReads {
		t.Errorf("a list for names reads %d objects, %v", *reads-maxPartialReads, err)
	}
	partial, reads = partialCluster(t, newStatefulSets("Swarm", maxPartialReads+1)...)
	if err := partial.List(t.Context(), list, ofOwner...); err == nil || !strings.Contains(err.Error(), "limits.cacheBytesPerNamespace") {
		t.Errorf("more than may be read: %v after %d reads", err, *reads)
	}
}
