package workerpool

import (
	"context"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

// newDeploymentObjects returns a pool over a Deployment of two replicas, and its pods, which are not ready.
func newDeploymentObjects(names ...string) []client.Object {
	pool := newPool()
	pool.Spec.Workers.Kind = v1alpha1.WorkloadDeployment
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "sim", Name: "w", UID: "uid-w"}}
	deployment.Spec.Replicas, deployment.Spec.Selector = new(int32(2)), &metav1.LabelSelector{MatchLabels: map[string]string{"app": "w"}}
	objects := []client.Object{pool, deployment}
	for _, name := range names {
		pod := controlledBy("ReplicaSet", "w-5f", "uid-r", "5f")
		pod.Name, pod.UID = name, types.UID("uid-"+name)
		objects = append(objects, pod)
	}
	return objects
}

// A pod that is created later, but sorts first by name, must not get a slot that was given to the other while the cache lacks that write:
// the two would trade places, and their jobs would move for nothing.
func TestSlotIsKeptUntilTheCacheShowsIt(t *testing.T) {
	e := newEnvironment(t, newDeploymentObjects("w-5f-a", "w-5f-b")...)
	stored := e.workloadPods
	e.workloadPods = func(ctx context.Context, key workload.Key) ([]*corev1.Pod, error) {
		pods, err := stored(ctx, key)
		return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return pod.Name == "w-5f-a" }), err
	}
	e.reconcilePool(t)
	slotOf := func(name string) string {
		pod := &corev1.Pod{}
		e.get(t, name, pod)
		return pod.Labels[v1alpha1.LabelSlot]
	}
	if got := slotOf("w-5f-b"); got != "0" {
		t.Fatalf("the only pod has slot %q", got)
	}
	e.workloadPods = func(ctx context.Context, key workload.Key) ([]*corev1.Pod, error) {
		pods, err := stored(ctx, key)
		for _, pod := range pods {
			delete(pod.Labels, v1alpha1.LabelSlot)
			pod.ResourceVersion = "1"
		}
		return pods, err
	}
	e.reconcilePool(t)
	e.reconcilePool(t)
	if a, b := slotOf("w-5f-a"), slotOf("w-5f-b"); a != "1" || b != "0" {
		t.Errorf("the pod that came later has slot %q, the first one %q", a, b)
	}
	e.workloadPods = stored
	e.reconcilePool(t)
	if state := e.stateFor(e.getPool(t)); len(state.clocks.Slots) > 0 {
		t.Errorf("slots %v are still remembered, and the cache shows them", state.clocks.Slots)
	}
}
