package operator

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

// manyLabels returns more labels than may be kept, in addition to these.
func manyLabels(pairs ...string) map[string]string {
	labels := map[string]string{}
	for n := range 1000 {
		labels[fmt.Sprintf("example.test/label-%d", n)] = "x"
	}
	for n := 0; n < len(pairs); n += 2 {
		labels[pairs[n]] = pairs[n+1]
	}
	return labels
}

// largeSelector exceeds what may be kept.
func largeSelector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: manyLabels()}
}

// cachedOutline returns what the cache keeps of an object, and how many objects it counts as too large.
func cachedOutline[T client.Object](t *testing.T, object T) (kept T, counted float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	outline := newOutlineTransform(snapshot.DefaultSettings(), limit.NewRefusals(registry), nil)
	for range 2 { // a cache may do it again
		if _, err := outline(object); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, series := range families[0].GetMetric() {
		if series.GetLabel()[0].GetValue() == string(limit.ObjectBytes) {
			counted = series.GetCounter().GetValue()
		}
	}
	return object, counted
}

// A pod with too many labels remains a worker with the same slot, and no budget is known to cover it.
func TestLargePodKeepsItsOwner(t *testing.T) {
	pod := podFixture("w-1-a", "-1")
	pod.Namespace, pod.Labels = "elsewhere", manyLabels("pod-template-hash", "1", v1alpha1.LabelSlot, "3", v1alpha1.LabelSwarm, "s")
	pod.Annotations[v1alpha1.AnnotationConfigVersion], pod.Annotations[v1alpha1.AnnotationTooLarge] = "7", "" // a user hides the mark
	pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{Kind: "ConfigMap", Name: "other"})
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a"}, {Name: "b"}}
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, "10.0.0.1"
	pod.Status.Conditions = []corev1.PodCondition{scheduledCondition, readyCondition}
	want := pod.DeepCopy()
	want.Labels = map[string]string{"pod-template-hash": "1", v1alpha1.LabelSlot: "3", v1alpha1.LabelSwarm: "s"}
	want.Annotations[v1alpha1.AnnotationTooLarge], want.OwnerReferences = "true", want.OwnerReferences[:1]
	want.Spec.SchedulingGates, want.Status.Conditions = want.Spec.SchedulingGates[:1], []corev1.PodCondition{readyCondition}
	owner, _ := workload.OwnerOf(pod)
	kept, counted := cachedOutline(t, pod)
	if counted != 1 || !equality.Semantic.DeepEqual(kept, want) {
		t.Errorf("kept %+v, want %+v; counted %g", kept, want, counted)
	}
	if still, _ := workload.OwnerOf(kept); still != owner || owner.Name != "w" {
		t.Errorf("it is a pod of %s, and was one of %s", still, owner)
	}
}

// Only our labels of workloads are read: dropping the others loses nothing.
func TestWorkloadsWithManyLabelsAreAsOthers(t *testing.T) {
	labels := map[string]string{v1alpha1.LabelPool: "p", v1alpha1.Prefix + "spread": "enabled"}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeSelector: fastDisk, Tolerations: spotToleration}}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "w"}}
	many := manyLabels()
	maps.Copy(many, labels)
	meta := metav1.ObjectMeta{Name: "w", Labels: many}
	deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}
	set := &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}}
	for _, object := range []client.Object{deployment, set} {
		want := object.DeepCopyObject().(client.Object)
		want.SetLabels(labels)
		if kept, counted := cachedOutline(t, object); counted != 1 || !equality.Semantic.DeepEqual(kept, want) {
			t.Errorf("kept %+v, want %+v; counted %g", kept, want, counted)
		}
	}
}

func TestWorkloadsThatAreTooLargeAreMarked(t *testing.T) {
	deployment, counted := cachedOutline(t,
		&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)), Selector: largeSelector()}})
	if counted != 1 || !workload.TooLarge(deployment) || *deployment.Spec.Replicas != 3 || deployment.Spec.Selector != nil {
		t.Errorf("kept %+v, counted %g", deployment, counted)
	}
	set, counted := cachedOutline(t, &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(3)), Ordinals: &appsv1.StatefulSetOrdinals{Start: 2}, Selector: largeSelector(),
	}})
	if counted != 1 || !workload.TooLarge(set) || *set.Spec.Replicas != 3 || set.Spec.Ordinals.Start != 2 || set.Spec.Selector != nil {
		t.Errorf("kept %+v, counted %g", set, counted)
	}
}

// A budget may get more pods than it covers, never fewer.
func TestBudgetThatIsTooLargeCoversAllPods(t *testing.T) {
	budget, counted := cachedOutline(t, &policyv1.PodDisruptionBudget{
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: largeSelector()}, Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 2},
	})
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil || !selector.Empty() || budget.Status.DisruptionsAllowed != 2 || counted != 1 {
		t.Errorf("kept %+v, counted %g, %v", budget, counted, err)
	}
}

// A name that no object can have is no owner. A part of a long text would be another setting, and must be none.
func TestLongNamesAndValuesAreNone(t *testing.T) {
	long := strings.Repeat("1", 20_000)
	deployment, _ := cachedOutline(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Annotations:     map[string]string{v1alpha1.SpreadMinOnDemand.Key(v1alpha1.Prefix): long, v1alpha1.AnnotationPaused: "true"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "App", Name: long, Controller: new(true)}},
	}})
	if value := deployment.Annotations["swarm.io/min-on-demand"]; len(value) > maxValueBytes || !strings.HasSuffix(value, "...") {
		t.Errorf("kept %q", value)
	}
	if deployment.Annotations[v1alpha1.AnnotationPaused] != "true" || len(deployment.OwnerReferences) > 0 {
		t.Errorf("kept %+v", deployment)
	}
}

func TestLongTextsAreNotShared(t *testing.T) {
	var numbers interner[int]
	text := strings.Repeat("x", maxInternedKey)
	if numbers.intern(text, 1) != 1 || numbers.intern(text, 2) != 1 {
		t.Error("the longest text is not shared")
	}
	if got := numbers.intern(text+"x", 3); got != 3 || len(numbers.values) != 1 {
		t.Errorf("got %d, with %d remembered", got, len(numbers.values))
	}
}
