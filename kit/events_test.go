package kit

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A namespace whose objects change all the time gets its share of events, whichever controllers send them, and others get theirs.
func TestEventsOfANamespaceAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorded, limits := &eventLog{}, &eventLimits{}
		tasks, pools := &limitedRecorder{recorded, limits}, &limitedRecorder{recorded, limits}
		tell := func(by *limitedRecorder, namespace string, n int) (recordedCount int) {
			before := len(recorded.events)
			for i := range n {
				by.Eventf(&corev1.ObjectReference{Namespace: namespace, Name: fmt.Sprint(i)}, nil, "Normal", "Failed", "Reconcile", "%s", "failed")
			}
			return len(recorded.events) - before
		}
		if recordedCount := tell(tasks, "hostile", eventBurst-1); recordedCount != eventBurst-1 {
			t.Errorf("%d events were recorded of a burst of %d", recordedCount, eventBurst-1)
		}
		if recordedCount := tell(pools, "hostile", 10_000); recordedCount != 1 {
			t.Errorf("%d events were recorded beyond the burst", recordedCount)
		}
		if recordedCount := tell(tasks, "honest", 100); recordedCount != 100 {
			t.Errorf("%d of 100 events of another namespace were recorded", recordedCount)
		}
		time.Sleep(10 * time.Second)
		if recordedCount := tell(tasks, "hostile", 10_000); recordedCount != 10*eventsPerSecond {
			t.Errorf("%d events were recorded after 10 s", recordedCount)
		}
	})
}

// Many namespaces cost no more memory than the remembered ones.
func TestEventNamespacesAreForgotten(t *testing.T) {
	limits := &eventLimits{}
	for i := range eventNamespaces + 100 {
		limits.allow(fmt.Sprint(i), time.Now())
	}
	if limits.buckets.Len() != eventNamespaces {
		t.Errorf("%d namespaces are remembered", limits.buckets.Len())
	}
}

func TestNamespaceOfAnEvent(t *testing.T) {
	if got := namespaceOfEvent(&corev1.ObjectReference{Kind: "Task", Namespace: "a"}); got != "a" {
		t.Errorf("a reference is in %q", got)
	}
	if got := namespaceOfEvent(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "b"}}); got != "b" {
		t.Errorf("a pod is in %q", got)
	}
	if got := namespaceOfEvent(&corev1.Node{}); got != "" {
		t.Errorf("a node is in %q", got)
	}
}

func TestAllRecordersOfAnOperatorShareTheLimits(t *testing.T) {
	operator := newOperatorHarness(t, Options{}).Operator
	for _, name := range []string{"task", "pool"} {
		if limited, is := operator.GetEventRecorder(name).(*limitedRecorder); !is || limited.limits != &operator.events {
			t.Errorf("the recorder of %q does not have the operator's limits", name)
		}
	}
}
