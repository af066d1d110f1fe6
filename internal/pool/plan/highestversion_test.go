package plan

import (
	"math"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

// The next version is above all published ones, and implausible numbers are ignored.
func TestHighestVersion(t *testing.T) {
	nudged := func(version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationConfigVersion: version}}}
	}
	for reason, c := range map[string]struct {
		world  Snapshot
		status int64
		want   int64
	}{
		"nothing was published": {Snapshot{}, 0, 0},
		"the status":            {Snapshot{Published: Published{Version: 4}}, 5, 5},
		"the config":            {Snapshot{Published: Published{Version: 6}}, 5, 6},
		"a revision": {Snapshot{History: []StoredRevision{{Data: codec.Revision{Version: 7}},
			{Data: codec.Revision{Version: 2}}}}, 5, 7},
		"a pod":                       {Snapshot{Pods: []*corev1.Pod{nudged("8"), nudged("")}}, 5, 8},
		"a pod of no version":         {Snapshot{Pods: []*corev1.Pod{nudged("eight"), nudged("-8")}}, 5, 5},
		"the highest that counts":     {Snapshot{Pods: []*corev1.Pod{nudged("9007199254740991")}}, 5, MaxNumber - 1},
		"a pod, just above":           {Snapshot{Pods: []*corev1.Pod{nudged("9007199254740992")}}, 5, 5},
		"a pod, the highest number":   {Snapshot{Pods: []*corev1.Pod{nudged(strconv.FormatInt(math.MaxInt64, 10))}}, 5, 5},
		"a pod, above what fits":      {Snapshot{Pods: []*corev1.Pod{nudged(strings.Repeat("9", 100))}}, 5, 5},
		"a pod, the lowest of all":    {Snapshot{Pods: []*corev1.Pod{nudged(strconv.FormatInt(math.MinInt64, 10))}}, 5, 5},
		"a pod that is behind others": {Snapshot{Pods: []*corev1.Pod{nudged("3")}}, 5, 5},
	} {
		pool := &v1alpha1.WorkerPool{Status: v1alpha1.WorkerPoolStatus{Version: c.status}}
		if got := c.world.highestVersion(pool); got != c.want {
			t.Errorf("%s: got %d, want %d", reason, got, c.want)
		}
	}
}
