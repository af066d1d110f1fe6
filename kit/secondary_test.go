package kit

import (
	"context"
	"errors"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// schemeManager is as much of a manager as a claim needs.
type schemeManager struct {
	manager.Manager
	scheme *runtime.Scheme
}

func (s schemeManager) GetScheme() *runtime.Scheme { return s.scheme }

func TestAKindHasOneControllerAndSecondaryOnes(t *testing.T) {
	known := runtime.NewScheme()
	if err := appsv1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	operator := &Operator{Manager: schemeManager{scheme: known}, controllers: map[schema.GroupVersionKind]string{}}
	claim := func(builder *Builder[*appsv1.StatefulSet]) bool { return builder.claimKind() == nil }
	first, second := New[*appsv1.StatefulSet](operator, "first"), New[*appsv1.StatefulSet](operator, "second")
	besides := New[*appsv1.StatefulSet](operator, "besides").Secondary()
	if got := []bool{claim(besides), claim(first), claim(second), claim(besides)}; !slices.Equal(got, []bool{true, true, false, true}) {
		t.Errorf("claims are %v", got)
	}
	if len(operator.requiredKinds) == 0 {
		t.Error("election does not wait for the cache of a kind that has a controller beside others only")
	}
}

func TestDeletingObjectsAreReconciledOnlyIfIncluded(t *testing.T) {
	now := metav1.Now()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now, Finalizers: []string{"of.another/one"}}}
	for _, asked := range []bool{false, true} {
		onward, _, err := (&finalizer[*corev1.ConfigMap]{includeDeleting: asked}).beforeReconcile(t.Context(), object)
		if onward != asked || err != nil {
			t.Errorf("asked %t, seen %t: %v", asked, onward, err)
		}
	}
}

// oneNamespace is a cluster with a namespace without labels.
type oneNamespace struct{ client.Reader }

func (oneNamespace) Get(_ context.Context, name client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	namespace, is := object.(*corev1.Namespace)
	if !is {
		return errors.New("asked for something else")
	}
	namespace.Name = name.Name
	return nil
}

func TestOnOutOfScopeIsCalledForObjectsNotInScope(t *testing.T) {
	var outOfScope []types.NamespacedName
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "a"}}
	scope := NewScope(labels.Everything())
	leftAlone := scope.filter(oneNamespace{}, func(name types.NamespacedName) { outOfScope = append(outOfScope, name) })
	if reason, err := leftAlone(t.Context(), object); reason != "" || err != nil || outOfScope != nil {
		t.Fatalf("an object in scope is left alone: %q, %v, told %v", reason, err, outOfScope)
	}
	scope.SetSelector(labels.Nothing())
	if reason, err := leftAlone(t.Context(), object); reason != "OutOfScope" || err != nil || len(outOfScope) != 1 ||
		outOfScope[0] != client.ObjectKeyFromObject(object) {
		t.Errorf("%q, %v, told %v", reason, err, outOfScope)
	}
}
