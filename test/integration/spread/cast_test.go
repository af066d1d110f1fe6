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
	engine "github.com/swarm-io/swarm-operator/internal/spread"
)

// An actor is a workload with its current settings.
type actor struct {
	workload
	kind        v1alpha1.WorkloadKind
	managed     bool
	overrides   bool
	floor, size int
	share       int
	changes     []func(client.Object)
	past        []asked
}

// asked is what was asked of a workload from a time on.
type asked struct {
	at                time.Time
	managed, override bool
	size              int
}

// enter creates the workloads: of both kinds, with and without budgets, with every way to roll, and some that are not managed.
func (s *soak) enter(ctx context.Context) {
	GinkgoHelper()
	for n := range 12 {
		one := &actor{kind: v1alpha1.WorkloadDeployment, managed: n < 10, size: s.dice.IntN(13)}
		if n%2 == 1 {
			one.kind = v1alpha1.WorkloadStatefulSet
		}
		one.floor, one.share = s.dice.IntN(5), 10*s.dice.IntN(11)
		one.changes = ways(n)
		s.make(ctx, one, fmt.Sprintf("soak-%d", n))
		if n%3 == 0 {
			s.bound(ctx, one.GetName(), one, 1+n%2)
		}
		s.cast = append(s.cast, one)
	}
}

// ways is how a workload rolls.
func ways(n int) []func(client.Object) {
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

// make makes the workload of an actor, also again.
func (s *soak) make(ctx context.Context, one *actor, name string) {
	GinkgoHelper()
	var annotations map[string]string
	if one.managed {
		annotations = wish(strconv.Itoa(one.floor), strconv.Itoa(one.share))
	}
	size := int32(one.size)
	one.overrides = false
	one.note()
	var object client.Object = &appsv1.Deployment{ObjectMeta: s.meta(name, annotations), Spec: deploymentSpec(s.template(name), size)}
	if one.kind == v1alpha1.WorkloadStatefulSet {
		object = &appsv1.StatefulSet{ObjectMeta: s.meta(name, annotations), Spec: statefulSetSpec(s.template(name), size)}
	}
	for _, change := range one.changes {
		change(object)
	}
	Expect(api.Create(ctx, object)).To(Succeed())
	one.workload = workload{s.scene, object}
}

// bound gives an actor a budget.
func (s *soak) bound(ctx context.Context, name string, one *actor, most int) {
	GinkgoHelper()
	away := intstr.FromInt(most)
	Expect(api.Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: s.meta(name, nil), Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: &away, Selector: selecting(one.GetName()),
	}})).To(Succeed())
}

func (a *actor) note() {
	a.past = append(a.past, asked{time.Now(), a.managed, a.overrides, a.size})
}

func (a *actor) policy() engine.Policy {
	return engine.Policy{MinOnDemand: a.floor, SpotPercent: a.share}
}

// wanted is the split that is documented.
func (a *actor) wanted() string {
	spot, onDemand := engine.Split(a.policy(), a.size)
	return distribution(onDemand, spot)
}

// trouble is why a workload is not as it should be, "" when it is.
func (a *actor) trouble(object client.Object, pods []corev1.Pod, class map[string]string) string {
	counts, ready := map[string]int{}, 0
	for _, pod := range pods {
		if pod.Labels["app"] != a.GetName() || over(pod) {
			continue
		}
		counts[class[pod.Spec.NodeName]]++
		if available(pod) {
			ready++
		}
	}
	is, told, due := distribution(counts[onDemand], counts[spot]), says(object), ""
	if a.managed {
		due = strings.Join([]string{v1alpha1.SpreadBalanced, a.wanted(), a.wanted()}, " ")
	}
	switch {
	case !rolledOut(object):
		return "is being rolled out"
	case ready == a.size && counts[""] == 0 && told == due && (is == a.wanted() || !a.managed):
		return ""
	}
	return fmt.Sprintf("is %s, %d Ready, %d without node, and says %q", is, ready, counts[""], told)
}

// rolledOut reports whether the controller of a workload has replaced all pods that have another template.
func rolledOut(object client.Object) bool {
	switch workload := object.(type) {
	case *appsv1.Deployment:
		status := workload.Status
		return status.ObservedGeneration == workload.Generation && status.UpdatedReplicas == status.Replicas && status.Replicas == *workload.Spec.Replicas
	case *appsv1.StatefulSet:
		return workload.Status.ObservedGeneration == workload.Generation && workload.Status.CurrentRevision == workload.Status.UpdateRevision
	}
	return true
}

// over reports whether a pod no longer counts.
func over(pod corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed
}

// says is all that is written on a workload, except for the settings.
func says(object client.Object) string {
	var all []string
	for _, annotation := range []v1alpha1.SpreadAnnotation{v1alpha1.SpreadStatus, v1alpha1.SpreadDesired, v1alpha1.SpreadCurrent, v1alpha1.SpreadReason} {
		all = append(all, object.GetAnnotations()[spreads(annotation)])
	}
	return strings.TrimSpace(strings.Join(all, " "))
}
