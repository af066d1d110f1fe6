package kit

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestChanges(t *testing.T) {
	deployment := func(change func(*appsv1.Deployment)) client.Object {
		made := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 1, ResourceVersion: "1", Labels: map[string]string{"a": "b"}}}
		made.Status.Replicas = 1
		made.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable}}
		change(made)
		return made
	}
	same := func(*appsv1.Deployment) {}
	now := metav1.NewTime(time.Unix(1, 0))
	for name, test := range map[string]struct {
		before, after client.Object
		heard         bool
	}{
		"nothing":          {deployment(same), deployment(same), false},
		"resource version": {deployment(same), deployment(func(d *appsv1.Deployment) { d.ResourceVersion = "2" }), false},
		"status":           {deployment(same), deployment(func(d *appsv1.Deployment) { d.Status.Replicas = 2 }), false},
		"finalizers":       {deployment(same), deployment(func(d *appsv1.Deployment) { d.Finalizers = []string{"a/b"} }), false},
		"status wiped":     {deployment(same), deployment(func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{} }), true},
		"conditions wiped": {deployment(same), deployment(func(d *appsv1.Deployment) { d.Status.Conditions = nil }), true},
		"spec":             {deployment(same), deployment(func(d *appsv1.Deployment) { d.Generation = 2 }), true},
		"labels":           {deployment(same), deployment(func(d *appsv1.Deployment) { d.Labels = nil }), true},
		"annotations": {deployment(same), deployment(func(d *appsv1.Deployment) {
			d.Annotations = map[string]string{"swarm.io/reconcile-at": "now"}
		}), true},
		"deletion": {deployment(same), deployment(func(d *appsv1.Deployment) { d.DeletionTimestamp = &now }), true},
		"data of a kind without generation": {
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2"}}, true},
		"resync of a kind without generation": {
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if heard := Changes().Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); heard != test.heard {
				t.Errorf("heard %t, want %t", heard, test.heard)
			}
		})
	}
}

func TestLongNotesAreShortened(t *testing.T) {
	long := make([]byte, 5000)
	if got := len(truncate(string(long), maxNoteLength)); got != maxNoteLength {
		t.Errorf("%d bytes", got)
	}
	if truncate("short", maxNoteLength) != "short" {
		t.Error("a short note was changed")
	}
}
