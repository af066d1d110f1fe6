package kit

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A report that finds nothing to change is no proof that nothing is to be changed, if the cache is behind our own last write.
func TestReportOfAnOldObjectIsAConflict(t *testing.T) {
	status := &Status[*corev1.Pod]{client: acceptingClient{}}
	version := func(version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a", ResourceVersion: version}}
	}
	status.staleReads.recordWrite(version("12"))
	cached := version("11")
	if err := status.Report(cached, new([]metav1.Condition)).Write(t.Context()); !apierrors.IsConflict(err) {
		t.Errorf("an old object was reported on: %v", err)
	}
	cached = version("12")
	if err := status.Report(cached, new([]metav1.Condition)).Write(t.Context()); err != nil {
		t.Errorf("the cache has caught up, and yet: %v", err)
	}
}
