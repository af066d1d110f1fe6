package spread

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/swarm-io/swarm-operator/internal/workload"
)

// withEdit returns a copy with a change.
func withEdit[T client.Object](of T, edit func(T)) T {
	copied := of.DeepCopyObject().(T)
	edit(copied)
	return copied
}

func TestPredicates(t *testing.T) {
	ours, others := newDeployment(3), newDeployment(3)
	others.Annotations = map[string]string{"swarm.io/spot-percentage": "60"}
	ours.Generation, others.Generation = 1, 1
	pod, budget := newPod("web-1", time.Now()), &policyv1.PodDisruptionBudget{}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo", Generation: 1}}
	scaled := func(d *appsv1.Deployment) { d.Generation = 2 }
	r := &reconciler[*appsv1.Deployment]{controller: &controller{settings: settings}, toWorkload: workload.Deployment}
	for name, test := range map[string]struct {
		through       predicate.Predicate
		before, after client.Object
		heard         bool
	}{
		"a spread workload is scaled": {r.workloadChanged(), ours, withEdit(ours, scaled), true},
		"another is scaled":           {r.workloadChanged(), others, withEdit(others, scaled), false},
		"one opts in":                 {r.workloadChanged(), others, ours, true},
		"one opts out":                {r.workloadChanged(), ours, others, true},
		"one has what we wrote, and nothing else of ours": {r.workloadChanged(), others, withEdit(others, func(d *appsv1.Deployment) {
			d.Annotations["swarm.io/spread-status"] = "Balanced"
		}), true},
		"one has a pod more": {r.workloadChanged(), ours, withEdit(ours, func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 1 }), false},
		"a rollout begins": {r.workloadChanged(), ours, withEdit(ours,
			func(d *appsv1.Deployment) { d.Status.ObservedGeneration, d.Status.Replicas = 1, 3 }), true},
		"a pod gets a node": {podChanged(), pod, withEdit(pod, func(p *corev1.Pod) { p.Spec.NodeName = "n" }), true},
		"a pod runs":        {podChanged(), pod, withEdit(pod, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }), true},
		"a pod loses a gate": {podChanged(), withEdit(pod, func(p *corev1.Pod) {
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "queue"}}
		}), pod, true},
		"a pod goes":        {podChanged(), pod, withEdit(pod, func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }), true},
		"a pod is labelled": {podChanged(), pod, withEdit(pod, func(p *corev1.Pod) { p.Labels["a"], p.ResourceVersion = "b", "2" }), false},
		"a budget allows more": {budgetChanged(), budget, withEdit(budget,
			func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 }), true},
		"a budget counts pods": {budgetChanged(), budget, withEdit(budget, func(b *policyv1.PodDisruptionBudget) { b.Status.CurrentHealthy = 1 }),
			false},
		"a namespace has windows": {windowsChanged(settings), namespace, withEdit(namespace, func(n *corev1.Namespace) {
			n.Annotations = map[string]string{"swarm.io/disruption-windows": "0 2 * * * for 1h"}
		}), true},
		"a namespace is annotated": {windowsChanged(settings), namespace,
			withEdit(namespace, func(n *corev1.Namespace) { n.Annotations = map[string]string{"a": "b"} }), false},
	} {
		t.Run(name, func(t *testing.T) {
			if passes := test.through.Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); passes != test.heard {
				t.Errorf("heard %t, want %t", passes, test.heard)
			}
		})
	}
	if r.workloadChanged().Create(event.CreateEvent{Object: others}) || !r.workloadChanged().Create(event.CreateEvent{Object: ours}) ||
		!r.workloadChanged().Delete(event.DeleteEvent{Object: ours}) {
		t.Error("what is made or goes is heard of wrongly")
	}
}

func TestMapToManagedWorkloads(t *testing.T) {
	s := newHarness(t, 3)
	pod := newPod("web-1", s.clock)
	if got := s.workloadOfPod(t.Context(), pod); got != nil {
		t.Errorf("named %v", got)
	}
	s.mustReconcile()
	if got := s.workloadOfPod(t.Context(), pod); len(got) != 1 || got[0] != keyOf("web").NamespacedName {
		t.Errorf("named %v", got)
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "demo"}}
	if got := s.workloadsNear(t.Context(), budget); len(got) != 1 {
		t.Errorf("named %v", got)
	}
	budget.Namespace = "elsewhere"
	if got := s.workloadsNear(t.Context(), budget); got != nil {
		t.Errorf("named %v", got)
	}
	if got := s.workloadsIn(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}); len(got) != 1 {
		t.Errorf("named %v", got)
	}
	s.forget(keyOf("web").NamespacedName)
	if got := s.workloadOfPod(t.Context(), pod); got != nil {
		t.Errorf("named %v", got)
	}
}
