package podwatch

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

func pod(uid, node string, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

func terminating(pod *corev1.Pod) *corev1.Pod {
	pod.DeletionTimestamp = &metav1.Time{}
	return pod
}

func TestInterruptedWatchIsReported(t *testing.T) {
	c := newRecorder(nil)
	c.handle(watch.Event{Type: watch.Error, Object: &metav1.Status{}})
	if !c.interrupted {
		t.Error("the failure would go unnoticed")
	}
}

func TestAMoveIsSeenInOrder(t *testing.T) {
	const serving, starting = corev1.ConditionTrue, corev1.ConditionFalse
	c := newRecorder([]corev1.Pod{*pod("a", "one", serving), *pod("b", "two", serving), *pod("c", "two", starting)})
	for _, event := range []watch.Event{
		{Type: watch.Modified, Object: terminating(pod("a", "one", serving))},
		{Type: watch.Added, Object: pod("d", "", starting)},
		{Type: watch.Added, Object: pod("e", "", starting)},
		{Type: watch.Modified, Object: pod("d", "three", serving)},
		{Type: watch.Modified, Object: pod("d", "three", serving)},
		{Type: watch.Deleted, Object: terminating(pod("a", "one", starting))},
		{Type: watch.Deleted, Object: terminating(pod("e", "", starting))},
	} {
		c.handle(event)
	}
	if c.Lowest() != 1 || c.Highest() != 4 {
		t.Errorf("lowest %d, highest %d", c.Lowest(), c.Highest())
	}
	if want := []Change{{"one", false}, {"three", true}, {"", false}}; !slices.Equal(c.Changes(), want) {
		t.Errorf("got %v, want %v", c.Changes(), want)
	}
}
