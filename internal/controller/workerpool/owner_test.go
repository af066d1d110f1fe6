package workerpool

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
)

// controlledBy returns a pod of a StatefulSet or ReplicaSet.
func controlledBy(kind, name string, uid types.UID, hash string) *corev1.Pod {
	pod := podNamed("w-0")
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: uid, Controller: new(true)}}
	if hash != "" {
		pod.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash}
	}
	return pod
}

// Pods of other workloads may carry the same labels. They must not be nudged, evicted or counted.
func TestPodsOfOtherWorkloadsAreNotOwned(t *testing.T) {
	newOwner := func(kind v1alpha1.WorkloadKind) plan.Workload {
		return plan.Workload{Kind: kind, Object: &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "w", UID: "uid-w"}}}
	}
	set, deployment := newOwner(v1alpha1.WorkloadStatefulSet), newOwner(v1alpha1.WorkloadDeployment)
	for reason, c := range map[string]struct {
		of       plan.Workload
		pod      *corev1.Pod
		disowned bool
	}{
		"its own":                      {set, controlledBy("StatefulSet", "w", "uid-w", ""), false},
		"without an owner":             {set, podNamed("w-0"), true},
		"another StatefulSet's":        {set, controlledBy("StatefulSet", "v", "uid-v", ""), true},
		"one's that had the same name": {set, controlledBy("StatefulSet", "w", "uid-before", ""), true},
		"a Deployment's of that name":  {set, controlledBy("ReplicaSet", "w-5f", "uid-r", "5f"), true},
		"the Deployment's own":         {deployment, controlledBy("ReplicaSet", "w-5f", "uid-r", "5f"), false},
		"another Deployment's":         {deployment, controlledBy("ReplicaSet", "v-5f", "uid-r", "5f"), true},
		"a StatefulSet's of that name": {deployment, controlledBy("StatefulSet", "w", "uid-w", ""), true},
	} {
		if got := c.of.DoesNotOwn(c.pod); got != c.disowned {
			t.Errorf("%s: disowned %t", reason, got)
		}
	}
}
