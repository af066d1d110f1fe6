package spread

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
)

// A managedWorkload is a workload with its current settings.
type managedWorkload struct {
	workload
	kind            v1alpha1.WorkloadKind
	managed         bool
	overrides       bool
	floor, size     int
	share           int
	changes         []func(client.Object)
	settingsHistory []settings
}

// settings is what was asked of a workload from a time on.
type settings struct {
	at                time.Time
	managed, override bool
	size              int
}

// createWorkloads creates the workloads: of both kinds, with and without budgets, with every way to roll, and some that are not managed.
func (s *soakTest) createWorkloads(ctx context.Context) {
	GinkgoHelper()
	for n := range 12 {
		w := &managedWorkload{kind: v1alpha1.WorkloadDeployment, managed: n < 10, size: s.random.IntN(13)}
		if n%2 == 1 {
			w.kind = v1alpha1.WorkloadStatefulSet
		}
		w.floor, w.share = s.random.IntN(5), 10*s.random.IntN(11)
		w.changes = rolloutStrategies(n)
		s.createWorkload(ctx, w, fmt.Sprintf("soak-%d", n))
		if n%3 == 0 {
			s.createBudget(ctx, w.GetName(), w, 1+n%2)
		}
		s.workloads = append(s.workloads, w)
	}
}

// rolloutStrategies is how a workload rolls.
func rolloutStrategies(n int) []func(client.Object) {
	return []func(client.Object){func(object client.Object) {
		switch object := object.(type) {
		case *appsv1.Deployment:
			switch one, none := intstr.FromInt32(1), intstr.FromInt32(0); n % 3 {
			case 0:
				object.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &one, MaxUnavailable: &none}
			case 1:
				object.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
			}
		case *appsv1.StatefulSet:
			if n%4 == 1 {
				object.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
			}
		}
	}}
}

// createWorkload makes the workload of an actor, also again.
func (s *soakTest) createWorkload(ctx context.Context, w *managedWorkload, name string) {
	GinkgoHelper()
	var annotations map[string]string
	if w.managed {
		annotations = spreadSettings(strconv.Itoa(w.floor), strconv.Itoa(w.share))
	}
	size := int32(w.size)
	w.overrides = false
	w.recordSettings()
	var object client.Object = &appsv1.Deployment{ObjectMeta: s.meta(name, annotations), Spec: deploymentSpec(s.template(name), size)}
	if w.kind == v1alpha1.WorkloadStatefulSet {
		object = &appsv1.StatefulSet{ObjectMeta: s.meta(name, annotations), Spec: statefulSetSpec(s.template(name), size)}
	}
	for _, change := range w.changes {
		change(object)
	}
	Expect(api.Create(ctx, object)).To(Succeed())
	w.workload = workload{s.environment, object}
}

// createBudget gives an actor a budget.
func (s *soakTest) createBudget(ctx context.Context, name string, one *managedWorkload, most int) {
	GinkgoHelper()
	away := intstr.FromInt(most)
	Expect(api.Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: s.meta(name, nil), Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: &away, Selector: selecting(one.GetName()),
	}})).To(Succeed())
}

func (a *managedWorkload) recordSettings() {
	a.settingsHistory = append(a.settingsHistory, settings{time.Now(), a.managed, a.overrides, a.size})
}

func (a *managedWorkload) policy() split.Policy {
	return split.Policy{MinOnDemand: a.floor, SpotPercent: a.share}
}

// expectedSplit is the split that is documented.
func (a *managedWorkload) expectedSplit() string {
	spot, onDemand := split.Split(a.policy(), a.size)
	return distribution(onDemand, spot)
}

// problem is why a workload is not as it should be, "" when it is.
func (a *managedWorkload) problem(object client.Object, pods []corev1.Pod, class map[string]string) string {
	counts, ready := map[string]int{}, 0
	for _, pod := range pods {
		if pod.Labels["app"] != a.GetName() || isTerminated(pod) {
			continue
		}
		counts[class[pod.Spec.NodeName]]++
		if isAvailable(pod) {
			ready++
		}
	}
	actual, annotations, expected := distribution(counts[onDemand], counts[spot]), annotationText(object), ""
	if a.managed {
		expected = strings.Join([]string{v1alpha1.SpreadBalanced, a.expectedSplit(), a.expectedSplit()}, " ")
	}
	switch {
	case !isRolledOut(object):
		return "is being rolled out"
	case ready == a.size && counts[""] == 0 && annotations == expected && (actual == a.expectedSplit() || !a.managed):
		return ""
	}
	return fmt.Sprintf("is %s, %d Ready, %d without node, and says %q", actual, ready, counts[""], annotations)
}

// isRolledOut reports whether the controller of a workload has replaced all pods that have another template.
func isRolledOut(object client.Object) bool {
	switch workload := object.(type) {
	case *appsv1.Deployment:
		status := workload.Status
		return status.ObservedGeneration == workload.Generation && status.UpdatedReplicas == status.Replicas &&
			status.Replicas == *workload.Spec.Replicas
	case *appsv1.StatefulSet:
		return workload.Status.ObservedGeneration == workload.Generation && workload.Status.CurrentRevision == workload.Status.UpdateRevision
	}
	return true
}

// isTerminated reports whether a pod no longer counts.
func isTerminated(pod corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed
}

// annotationText is all that is written on a workload, except for the settings.
func annotationText(object client.Object) string {
	var all []string
	for _, annotation := range []v1alpha1.SpreadAnnotation{v1alpha1.SpreadStatus, v1alpha1.SpreadDesired, v1alpha1.SpreadCurrent,
		v1alpha1.SpreadReason} {
		all = append(all, object.GetAnnotations()[annotationKey(annotation)])
	}
	return strings.TrimSpace(strings.Join(all, " "))
}
