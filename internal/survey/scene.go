package survey

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
	"github.com/swarm-io/swarm-operator/internal/spread"
)

// Scene is a workload and the objects around it.
type Scene struct {
	Workload Workload
	Wish     Wish
	Pods     []*corev1.Pod // all of the workload's
	Nodes    map[string]Node
	Budgets  []*policyv1.PodDisruptionBudget                       // of its namespace
	Volumes  func(*corev1.Pod) ([]*corev1.PersistentVolume, error) // nil: not considered
	Hold     string                                                // why Ready pods must stay, in addition to what the objects say
	Memory   Memory
	Now      time.Time
}

// Memory is the state that outlasts a decision.
type Memory struct {
	LastMove       time.Time
	Spot, OnDemand Past
	Ungated        map[types.UID]time.Time // when the last scheduling gate of a pod was seen to be gone
}

// Past is what is remembered of a class.
type Past struct {
	Failed   time.Time // spread.Gate.Failed of the last decision
	Returned time.Time // when a node of it last began to accept pods
}

// World converts the scene for the engine.
func (s Settings) World(scene Scene) (spread.World, error) {
	world := spread.World{
		Policy: scene.Wish.Policy, Problem: scene.Wish.Problem, Replicas: scene.Workload.Replicas,
		Now: scene.Now, LastMove: scene.Memory.LastMove, Cooldown: s.Cooldown, PendingDeadline: s.PendingDeadline,
	}
	world.Spot = s.supply(scene, spread.Spot, scene.Memory.Spot)
	world.OnDemand = s.supply(scene, spread.OnDemand, scene.Memory.OnDemand)
	world.Budget, world.Hold = s.budget(scene)
	for _, pod := range settled(scene.Pods) {
		seen, err := s.pod(scene, pod)
		if err != nil {
			return spread.World{}, err
		}
		world.Pods = append(world.Pods, seen)
		if TooLarge(pod) && seen.Phase != spread.Terminating && world.Policy != nil {
			world.Policy = nil
			world.Problem = fmt.Sprintf("pod %s has more than 16 KiB of labels, volumes and status: remove labels from the template", pod.Name)
		}
	}
	return world, nil
}

// Replica converts a pod for the engine, as far as the pod itself says. Nothing is known of its node yet.
func (s Settings) Replica(workload Workload, pod *corev1.Pod) spread.Pod {
	return spread.Pod{
		Name: pod.Name, Number: s.Number(workload, pod), Set: pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey], Made: s.Made(pod),
		Phase: phaseOf(pod), Created: pod.CreationTimestamp.Time, Gated: len(pod.Spec.SchedulingGates) > 0,
	}
}

// pod converts a pod for the engine.
func (s Settings) pod(scene Scene, pod *corev1.Pod) (spread.Pod, error) {
	seen := s.Replica(scene.Workload, pod)
	seen.Since = scene.Memory.Ungated[pod.UID]
	if pod.Spec.NodeName == "" {
		return seen, nil
	}
	node, exists := scene.Nodes[pod.Spec.NodeName]
	seen.Node, seen.Doomed, seen.Lost = node.Class, node.leaves(scene.Workload.Pods.Tolerations), node.Down
	seen.Cordoned, seen.Noticed = node.cordoned(scene.Workload.Pods.Tolerations), node.Noticed.Time
	if !exists {
		seen.Node, seen.Doomed, seen.Lost = s.lost(pod), true, true
	}
	var err error
	seen.Bound, err = scene.bound(pod, seen)
	return seen, err
}

// lost returns the class of a node that no longer exists: the one that the pod was created for, or else on-demand.
func (s Settings) lost(pod *corev1.Pod) spread.Class {
	if made := s.Made(pod); made != "" {
		return made
	}
	return spread.OnDemand
}

// Made returns the class that admission chose for a pod, or "".
func (s Settings) Made(pod metav1.Object) spread.Class {
	switch class := spread.Class(pod.GetAnnotations()[s.Key(v1alpha1.SpreadClass)]); class {
	case spread.Spot, spread.OnDemand:
		return class
	}
	return ""
}

func phaseOf(pod *corev1.Pod) spread.Phase {
	switch {
	case pod.DeletionTimestamp != nil, pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		return spread.Terminating
	case pod.Spec.NodeName == "":
		return spread.Pending
	case slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }):
		return spread.Ready
	}
	return spread.Starting
}

// supply returns the capacity of a class for this workload.
func (s Settings) supply(scene Scene, class spread.Class, past Past) spread.Supply {
	tolerations := slices.Concat(scene.Workload.Pods.Tolerations, s.Tolerations(class))
	supply := spread.Supply{Failed: past.Failed, Returned: past.Returned, Static: s.Provisioner == ProvisionerNone}
	made := false
	for _, node := range scene.Nodes {
		made = made || node.Made
		if node.Class == class && node.takes(tolerations) {
			supply.Nodes++
		}
	}
	if s.Provisioner == ProvisionerAuto {
		supply.Static = !made
	}
	return supply
}

// budget returns how much of a workload may be disrupted, or why nothing may be.
func (s Settings) budget(scene Scene) (spread.Budget, string) {
	step, err := intstr.GetScaledValueFromIntOrPercent(&s.Step, scene.Workload.Replicas, true)
	if err != nil {
		step = 1
	}
	budget := spread.Budget{Step: max(1, step), Override: scene.Wish.Override}
	var most int
	budget.Allowed, most = limit(scene.Pods, scene.Budgets)
	switch {
	case scene.Hold != "":
		return budget, scene.Hold
	case scene.Workload.Rollout != "":
		return budget, scene.Workload.Rollout
	case most > 1 && !budget.Override:
		return budget, fmt.Sprintf("%d PodDisruptionBudgets cover one pod, and evictions are refused then: leave one", most)
	}
	return budget, ""
}

// limit returns the lowest allowance of the budgets of any pod, and the highest number of budgets of one pod.
func limit(pods []*corev1.Pod, budgets []*policyv1.PodDisruptionBudget) (allowed, most int) {
	allowed = spread.NoLimit
	over := make(map[*corev1.Pod]int, len(pods))
	for _, pdb := range budgets {
		selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
		if err != nil {
			continue // matches nothing, as in the API server
		}
		for _, pod := range pods {
			if !selector.Matches(labels.Set(pod.Labels)) {
				continue
			}
			over[pod]++
			most = max(most, over[pod])
			if left := int(pdb.Status.DisruptionsAllowed); allowed == spread.NoLimit || left < allowed {
				allowed = left
			}
		}
	}
	return allowed, most
}
