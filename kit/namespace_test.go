package kit

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func deletedNow(object *corev1.ConfigMap) {
	now := metav1.Now()
	object.DeletionTimestamp, object.Finalizers = &now, append(object.Finalizers, held)
}

// A paused object, one out of scope, and one whose cleanup never ends because an agent lies about what runs.
func TestNothingHoldsAnObjectOfANamespaceThatIsDeleted(t *testing.T) {
	const other = "example.com/other"
	leave := guard(func(context.Context, client.Object) (string, error) { return "LeftAlone", nil })
	for reason, c := range map[string]struct {
		change      func(*corev1.ConfigMap)
		guards      []guard
		terminating bool
		unreadable  error
		left        []string // finalizers; nil when the object is gone
	}{
		"left alone":                        {deletedNow, []guard{leave}, true, nil, nil},
		"never clean":                       {deletedNow, nil, true, nil, nil},
		"left alone, namespace stays":       {deletedNow, []guard{leave}, false, nil, []string{held}},
		"never clean, namespace stays":      {deletedNow, nil, false, nil, []string{held}},
		"namespace cannot be read":          {deletedNow, []guard{leave}, true, errRefused, []string{held}},
		"not deleted yet":                   {func(object *corev1.ConfigMap) { object.Finalizers = []string{held} }, []guard{leave}, true, nil, []string{held}},
		"held by another controller, too":   {func(object *corev1.ConfigMap) { object.Finalizers = []string{other}; deletedNow(object) }, []guard{leave}, true, nil, []string{other}},
		"held by another controller, alone": {func(object *corev1.ConfigMap) { deletedNow(object); object.Finalizers = []string{other} }, nil, true, nil, []string{other}},
	} {
		t.Run(reason, func(t *testing.T) {
			cluster := fake.NewClientBuilder().WithObjects(configMap("a", c.change)).Build()
			s := controlOver(cluster, isDone)
			s.guards = c.guards
			s.finalizer.id, s.finalizer.clean = held, func(context.Context, *corev1.ConfigMap) (Cleanup, error) { return Pending("Draining"), nil }
			s.finalizer.terminating = func(_ context.Context, namespace string) (bool, error) {
				return c.terminating && namespace == "demo", c.unreadable
			}
			if _, err := s.reconcile(t, "a"); !errors.Is(err, c.unreadable) {
				t.Errorf("got %v", err)
			}
			stored := &corev1.ConfigMap{}
			err := cluster.Get(t.Context(), client.ObjectKey{Namespace: "demo", Name: "a"}, stored)
			if gone := client.IgnoreNotFound(err) == nil && err != nil; gone != (c.left == nil) || !slices.Equal(stored.Finalizers, c.left) {
				t.Errorf("gone: %v, finalizers %v", gone, stored.Finalizers)
			}
		})
	}
}

func namespaceOf(name string, deleted bool) *corev1.Namespace {
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{held}}}
	if deleted {
		now := metav1.Now()
		made.DeletionTimestamp = &now
	}
	return made
}

func TestScopeKnowsNamespacesThatAreDeleted(t *testing.T) {
	cluster := fake.NewClientBuilder().WithObjects(namespaceOf("going", true), namespaceOf("staying", false)).Build()
	terminating := NewScope(labels.Nothing()).terminating(cluster)
	for name, want := range map[string]bool{"going": true, "staying": false, "missing": false} {
		if got, err := terminating(t.Context(), name); err != nil || got != want {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	if got, err := NewScopeOf("going").terminating(untouchable{})(t.Context(), "going"); err != nil || got {
		t.Errorf("a scope of names: got %v, %v", got, err)
	}
	if _, err := NewScope(labels.Nothing()).terminating(untouchable{})(t.Context(), "going"); err == nil {
		t.Error("what cannot be read is no error")
	}
}

func TestOnlyTheBeginningOfADeletionConcernsTheObjects(t *testing.T) {
	going, staying := namespaceOf("a", true), namespaceOf("a", false)
	for reason, c := range map[string]struct {
		before, after *corev1.Namespace
		want          bool
	}{
		"begins": {staying, going, true}, "goes on": {going, going, false}, "another change": {staying, staying, false},
	} {
		if got := terminated.Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: got %v", reason, got)
		}
	}
	if terminated.Create(event.CreateEvent{Object: going}) || terminated.Delete(event.DeleteEvent{Object: going}) {
		t.Error("namespaces that appear or are gone concern nothing")
	}
}
