package kit

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// untouchable is a reader for those who must not read.
type untouchable struct{ client.Reader }

func (untouchable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("forbidden")
}

func podIn(namespace string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
}

func TestScopeOfNamesReadsNothing(t *testing.T) {
	var left []string
	outside := func(name types.NamespacedName) { left = append(left, name.Namespace) }
	scope := NewScopeOf("a", "b")
	guard := scope.guard(untouchable{}, outside)
	for namespace, want := range map[string]string{"a": "", "b": "", "c": "OutOfScope", "ab": "OutOfScope", "": ""} {
		if got, err := guard(t.Context(), podIn(namespace)); err != nil || got != want {
			t.Errorf("%q: got %q, %v", namespace, got, err)
		}
	}
	if len(left) != 2 || len(scope.watched) != 0 {
		t.Errorf("%v were left, %v are watched", left, scope.watched)
	}
}

func TestScopeOfNamesKnowsRealNamespaces(t *testing.T) {
	scope := NewScopeOf("a")
	genuine := func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name, "team": "a"}}}
	}
	if !scope.Includes(genuine("a")) || scope.Includes(genuine("b")) {
		t.Error("other namespaces than those of these names are included")
	}
}

func TestScopeOfNoNamesIsEmpty(t *testing.T) {
	for reason, scope := range map[string]*Scope{"none": NewScopeOf(), "not a name": NewScopeOf("a b")} {
		if got, err := scope.guard(untouchable{}, nil)(t.Context(), podIn("a")); err != nil || got != "OutOfScope" {
			t.Errorf("%s: got %q, %v", reason, got, err)
		}
	}
}

func TestScopeOfLabelsReadsNamespaces(t *testing.T) {
	scope := NewScope(labels.Everything())
	if _, err := scope.guard(untouchable{}, nil)(t.Context(), podIn("a")); err == nil || len(scope.watched) != 1 {
		t.Errorf("got %v, watches %v", err, scope.watched)
	}
}
