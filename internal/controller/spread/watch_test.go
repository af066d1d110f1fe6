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

	"github.com/swarm-io/swarm-operator/internal/survey"
)

// edited returns a copy with a change.
func edited[T client.Object](of T, edit func(T)) T {
	copied := of.DeepCopyObject().(T)
	edit(copied)
	return copied
}

func TestWhatIsHeardOf(t *testing.T) {
	ours, others := deployment(3), deployment(3)
	others.Annotations = map[string]string{"swarm.io/spot-percentage": "60"}
	ours.Generation, others.Generation = 1, 1
	pod, budget := podOf("web-1", time.Now()), &policyv1.PodDisruptionBudget{}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo", Generation: 1}}
	scaled := func(d *appsv1.Deployment) { d.Generation = 2 }
	r := &reconciler[*appsv1.Deployment]{keeper: &keeper{settings: settings}, of: survey.Deployment}
	for name, test := range map[string]struct {
		through       predicate.Predicate
		before, after client.Object
		heard         bool
	}{
		"a spread workload is scaled": {r.news(), ours, edited(ours, scaled), true},
		"another is scaled":           {r.news(), others, edited(others, scaled), false},
		"one opts in":                 {r.news(), others, ours, true},
		"one opts out":                {r.news(), ours, others, true},
		"one has what we wrote, and nothing else of ours": {r.news(), others, edited(others, func(d *appsv1.Deployment) {
			d.Annotations["swarm.io/spread-status"] = "Balanced"
		}), true},
		"one has a pod more":   {r.news(), ours, edited(ours, func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 1 }), false},
		"a rollout begins":     {r.news(), ours, edited(ours, func(d *appsv1.Deployment) { d.Status.ObservedGeneration, d.Status.Replicas = 1, 3 }), true},
		"a pod gets a node":    {podNews(), pod, edited(pod, func(p *corev1.Pod) { p.Spec.NodeName = "n" }), true},
		"a pod runs":           {podNews(), pod, edited(pod, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }), true},
		"a pod loses a gate":   {podNews(), edited(pod, func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "queue"}} }), pod, true},
		"a pod goes":           {podNews(), pod, edited(pod, func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }), true},
		"a pod is labelled":    {podNews(), pod, edited(pod, func(p *corev1.Pod) { p.Labels["a"], p.ResourceVersion = "b", "2" }), false},
		"a budget allows more": {budgetNews(), budget, edited(budget, func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 }), true},
		"a budget counts pods": {budgetNews(), budget, edited(budget, func(b *policyv1.PodDisruptionBudget) { b.Status.CurrentHealthy = 1 }), false},
		"a namespace has windows": {windowNews(settings), namespace, edited(namespace, func(n *corev1.Namespace) {
			n.Annotations = map[string]string{"swarm.io/disruption-windows": "0 2 * * * for 1h"}
		}), true},
		"a namespace is annotated": {windowNews(settings), namespace, edited(namespace, func(n *corev1.Namespace) { n.Annotations = map[string]string{"a": "b"} }), false},
	} {
		t.Run(name, func(t *testing.T) {
			if heard := test.through.Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); heard != test.heard {
				t.Errorf("heard %t, want %t", heard, test.heard)
			}
		})
	}
	if r.news().Create(event.CreateEvent{Object: others}) || !r.news().Create(event.CreateEvent{Object: ours}) || !r.news().Delete(event.DeleteEvent{Object: ours}) {
		t.Error("what is made or goes is heard of wrongly")
	}
}

func TestOnlyManagedWorkloadsAreNamed(t *testing.T) {
	s := newStage(t, 3)
	pod := podOf("web-1", s.clock)
	if got := s.workload(t.Context(), pod); got != nil {
		t.Errorf("named %v", got)
	}
	s.must()
	if got := s.workload(t.Context(), pod); len(got) != 1 || got[0] != keyOf("web").NamespacedName {
		t.Errorf("named %v", got)
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "demo"}}
	if got := s.neighbours(t.Context(), budget); len(got) != 1 {
		t.Errorf("named %v", got)
	}
	budget.Namespace = "elsewhere"
	if got := s.neighbours(t.Context(), budget); got != nil {
		t.Errorf("named %v", got)
	}
	if got := s.inhabitants(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}); len(got) != 1 {
		t.Errorf("named %v", got)
	}
	s.forget(keyOf("web").NamespacedName)
	if got := s.workload(t.Context(), pod); got != nil {
		t.Errorf("named %v", got)
	}
}
