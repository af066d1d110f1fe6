package kit

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// unusableReader is a reader that must not be used.
type unusableReader struct{ client.Reader }

func (unusableReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("forbidden")
}

func podIn(namespace string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
}

func TestScopeOfNamesReadsNothing(t *testing.T) {
	var left []string
	outside := func(name types.NamespacedName) { left = append(left, name.Namespace) }
	scope := NewNamedScope("a", "b")
	guard := scope.filter(unusableReader{}, outside)
	for namespace, want := range map[string]string{"a": "", "b": "", "c": "OutOfScope", "ab": "OutOfScope", "": ""} {
		if got, err := guard(t.Context(), podIn(namespace)); err != nil || got != want {
			t.Errorf("%q: got %q, %v", namespace, got, err)
		}
	}
	if len(left) != 2 || len(scope.watchedKinds) != 0 {
		t.Errorf("%v were left, %v are watched", left, scope.watchedKinds)
	}
}

func TestScopeOfNamesKnowsRealNamespaces(t *testing.T) {
	scope := NewNamedScope("a")
	genuine := func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{corev1.LabelMetadataName: name, "team": "a"}}}
	}
	if !scope.Includes(genuine("a")) || scope.Includes(genuine("b")) {
		t.Error("other namespaces than those of these names are included")
	}
}

func TestScopeOfNoNamesIsEmpty(t *testing.T) {
	for reason, scope := range map[string]*Scope{"none": NewNamedScope(), "not a name": NewNamedScope("a b")} {
		if got, err := scope.filter(unusableReader{}, nil)(t.Context(), podIn("a")); err != nil || got != "OutOfScope" {
			t.Errorf("%s: got %q, %v", reason, got, err)
		}
	}
}

func TestScopeOfLabelsReadsNamespaces(t *testing.T) {
	scope := NewScope(labels.Everything())
	if _, err := scope.filter(unusableReader{}, nil)(t.Context(), podIn("a")); err == nil || len(scope.watchedKinds) != 1 {
		t.Errorf("got %v, watches %v", err, scope.watchedKinds)
	}
}

func TestSelectorChangeNotifiesEveryController(t *testing.T) {
	scope := NewScope(labels.Nothing())
	first, second := scope.subscribe(), scope.subscribe()
	scope.SetSelector(labels.Everything())
	scope.SetSelector(labels.Everything()) // one pending notification is enough
	for n, listener := range []<-chan event.GenericEvent{first, second} {
		if len(listener) != 1 {
			t.Errorf("controller %d has %d to hear, want 1", n, len(listener))
		}
	}
}

func TestObjectsOfANamespaceThatComesIntoScope(t *testing.T) {
	cluster := fake.NewClientBuilder().WithObjects(podIn("demo"), podIn("other")).Build()
	find := requestsIn[*corev1.Pod](cluster, cluster.Scheme())
	namespace := &corev1.Namespace{}
	if all := find(t.Context(), namespace); len(all) != 2 {
		t.Errorf("a new selector concerns %v, want both", all)
	}
	namespace.Name = "demo"
	if found := find(t.Context(), namespace); len(found) != 1 || found[0].Namespace != "demo" || found[0].Name != "p" {
		t.Errorf("found %v", found)
	}
	if found := requestsIn[*corev1.Pod](cluster, runtime.NewScheme())(t.Context(), namespace); found != nil {
		t.Errorf("found %v of an unknown kind", found)
	}
}

func TestNamespaceThatCannotBeReadIsAnError(t *testing.T) {
	cluster := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errRefused
		},
	}).Build()
	guard := NewScope(labels.Everything()).filter(cluster, func(types.NamespacedName) { t.Error("taken for one out of scope") })
	if reason, err := guard(t.Context(), podIn("demo")); !errors.Is(err, errRefused) || reason != "" {
		t.Errorf("got %q, %v", reason, err)
	}
	if reason, err := guard(t.Context(), podIn("")); reason != "" || err != nil {
		t.Errorf("an object without a namespace: %q, %v", reason, err)
	}
}
