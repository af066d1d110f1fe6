package snapshot

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
)

// Objects is a workload and the objects around it.
type Objects struct {
	Workload workloads.Workload
	Spec     Spec
	Pods     []*corev1.Pod // all of the workload's
	Nodes    map[string]Node
	Budgets  []*policyv1.PodDisruptionBudget                       // of its namespace
	Volumes  func(*corev1.Pod) ([]*corev1.PersistentVolume, error) // nil: not considered
	History  History
	Now      time.Time
}

// History is the state that outlasts a decision.
type History struct {
	LastMove       time.Time
	Spot, OnDemand ClassHistory
	UngatedAt      map[types.UID]time.Time // when the last scheduling gate of a pod was seen to be gone
}

// ClassHistory is what is remembered of a class.
type ClassHistory struct {
	NoCapacitySince time.Time // split.ClassState.NoCapacitySince of the last decision
	NodeAvailableAt time.Time // when a node of it last began to accept pods
}

// Snapshot converts the objects for the engine.
func (s Settings) Snapshot(objects Objects) (split.Snapshot, error) {
	input := split.Snapshot{
		Policy: objects.Spec.Policy, Problem: objects.Spec.Problem, Replicas: objects.Workload.Replicas,
		Now: objects.Now, LastMove: objects.History.LastMove, Cooldown: s.Cooldown, PendingDeadline: s.PendingDeadline,
	}
	input.Spot = s.capacity(objects, split.Spot, objects.History.Spot)
	input.OnDemand = s.capacity(objects, split.OnDemand, objects.History.OnDemand)
	input.Budget, input.Hold = s.disruptionBudget(objects)
	for _, pod := range sortByName(objects.Pods) {
		replica, err := s.replicaOnNode(objects, pod)
		if err != nil {
			return split.Snapshot{}, err
		}
		input.Pods = append(input.Pods, replica)
		if workloads.TooLarge(pod) && replica.Phase != split.Terminating && input.Policy != nil {
			input.Policy = nil
			input.Problem = fmt.Sprintf("pod %s has more than 16 KiB of labels, volumes and status: remove labels from the template", pod.Name)
		}
	}
	return input, nil
}

// Replica converts a pod for the engine, as far as the pod itself says. Nothing is known of its node yet.
func (s Settings) Replica(workload workloads.Workload, pod *corev1.Pod) split.Pod {
	return split.Pod{
		Name: pod.Name, Number: s.Number(workload, pod), TemplateHash: pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey],
		AssignedClass: s.AssignedClass(pod),
		Phase:         phaseOf(pod), Created: pod.CreationTimestamp.Time, Gated: len(pod.Spec.SchedulingGates) > 0,
	}
}

// replicaOnNode converts a pod for the engine.
func (s Settings) replicaOnNode(objects Objects, pod *corev1.Pod) (split.Pod, error) {
	replica := s.Replica(objects.Workload, pod)
	replica.SchedulableSince = objects.History.UngatedAt[pod.UID]
	if pod.Spec.NodeName == "" {
		return replica, nil
	}
	node, found := objects.Nodes[pod.Spec.NodeName]
	replica.NodeClass, replica.NodeTerminating, replica.NodeDown = node.Class, node.mustLeave(objects.Workload.PodSpec.Tolerations),
		node.NotReady
	replica.Cordoned, replica.InterruptedAt = node.mustLeaveForCordon(objects.Workload.PodSpec.Tolerations), node.InterruptedAt.Time
	if !found {
		replica.NodeClass, replica.NodeTerminating, replica.NodeDown = s.classOfDeletedNode(pod), true, true
	}
	var err error
	replica.ImmovableReason, err = objects.immovableReason(pod, replica)
	return replica, err
}

// classOfDeletedNode returns the class of a node that no longer exists: the one that the pod was created for, or else on-demand.
func (s Settings) classOfDeletedNode(pod *corev1.Pod) split.Class {
	if made := s.AssignedClass(pod); made != "" {
		return made
	}
	return split.OnDemand
}

// AssignedClass returns the class that admission chose for a pod, or "".
func (s Settings) AssignedClass(pod metav1.Object) split.Class {
	switch class := split.Class(pod.GetAnnotations()[s.Key(v1alpha1.SpreadClass)]); class {
	case split.Spot, split.OnDemand:
		return class
	}
	return ""
}

func phaseOf(pod *corev1.Pod) split.Phase {
	switch {
	case pod.DeletionTimestamp != nil, pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		return split.Terminating
	case pod.Spec.NodeName == "":
		return split.Pending
	case slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}):
		return split.Ready
	}
	return split.Starting
}

// capacity returns the capacity of a class for this workload.
func (s Settings) capacity(objects Objects, class split.Class, past ClassHistory) split.Capacity {
	tolerations := slices.Concat(objects.Workload.PodSpec.Tolerations, s.Tolerations(class))
	capacity := split.Capacity{NoCapacitySince: past.NoCapacitySince, NodeAvailableAt: past.NodeAvailableAt,
		Static: s.Provisioner == ProvisionerNone}
	provisioned := false
	for _, node := range objects.Nodes {
		provisioned = provisioned || node.Provisioned
		if node.Class == class && node.accepts(tolerations) {
			capacity.Nodes++
		}
	}
	if s.Provisioner == ProvisionerAuto {
		capacity.Static = !provisioned
	}
	return capacity
}

// disruptionBudget returns how much of a workload may be disrupted, or why nothing may be.
func (s Settings) disruptionBudget(objects Objects) (split.Budget, string) {
	step, err := intstr.GetScaledValueFromIntOrPercent(&s.Step, objects.Workload.Replicas, true)
	if err != nil {
		step = 1
	}
	budget := split.Budget{Step: max(1, step), Override: objects.Spec.PDBOverride}
	var maxPerPod int
	budget.Allowed, maxPerPod = disruptionLimit(objects.Pods, objects.Budgets)
	switch {
	case objects.Workload.Rollout != "":
		return budget, objects.Workload.Rollout
	case maxPerPod > 1 && !budget.Override:
		return budget, fmt.Sprintf("%d PodDisruptionBudgets cover one pod, and evictions are refused then: leave one", maxPerPod)
	}
	return budget, ""
}

// disruptionLimit returns the lowest allowance of the budgets of any pod, and the highest number of budgets of one pod.
func disruptionLimit(pods []*corev1.Pod, budgets []*policyv1.PodDisruptionBudget) (allowed, maxPerPod int) {
	allowed = split.NoLimit
	budgetsOf := make(map[*corev1.Pod]int, len(pods))
	for _, pdb := range budgets {
		selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
		if err != nil {
			continue // matches nothing, as in the API server
		}
		for _, pod := range pods {
			if !selector.Matches(labels.Set(pod.Labels)) {
				continue
			}
			budgetsOf[pod]++
			maxPerPod = max(maxPerPod, budgetsOf[pod])
			if left := int(pdb.Status.DisruptionsAllowed); allowed == split.NoLimit || left < allowed {
				allowed = left
			}
		}
	}
	return allowed, maxPerPod
}
