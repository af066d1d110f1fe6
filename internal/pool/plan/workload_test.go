package plan

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestStatefulSetIsObservedWhenItsControllerSaysSo(t *testing.T) {
	for observed, want := range map[int64]bool{1: false, 2: true} {
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "sim", Name: "w", Generation: 2}}
		set.Status.ObservedGeneration = observed
		if got := StatefulSetWorkload(set).SpecObserved; got != want {
			t.Errorf("generation %d: observed %t", observed, got)
		}
	}
}
