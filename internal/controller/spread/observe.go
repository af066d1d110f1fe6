package spread

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	engine "github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

// sight is the observed state of a workload.
type sight struct {
	rules
	world     engine.Snapshot
	pods      map[string]*corev1.Pod // from the cache: they must not be modified
	landscape landscape
	crowded   bool   // several budgets cover one pod
	budgets   string // changes whenever a budget changes
}

// observe reads everything once, from caches and memory.
func (k *keeper) observe(ctx context.Context, of subject) (sight, error) {
	pods, err := k.replicas(ctx, of.Key)
	if err != nil {
		return sight{}, err
	}
	pods = of.memory.parted(pods, of.now)
	seen := sight{pods: make(map[string]*corev1.Pod, len(pods))}
	for _, pod := range pods {
		seen.pods[pod.Name] = pod
	}
	if seen.landscape, err = k.nodes.around(ctx, pods); err != nil {
		return seen, err
	}
	budgets, err := k.budgets(ctx, of.Key.Namespace)
	if err != nil {
		return seen, err
	}
	seen.budgets = versions(budgets)
	if seen.rules, err = k.rules(ctx, of); err != nil {
		return seen, err
	}
	scene := survey.Objects{
		Workload: of.Workload, Spec: of.wish, Pods: pods, Nodes: seen.landscape.nodes, Budgets: budgets,
		Volumes: k.volumes(ctx), Hold: seen.hold, History: k.memories.past(of.memory, seen.landscape, of.now), Now: of.now,
	}
	scene.History.UngatedAt = of.memory.ungated(pods, of.now)
	scene.Spec.Problem = cmp.Or(seen.never, of.wish.Problem, seen.wrong)
	seen.world, err = k.settings.Snapshot(scene)
	// A hold that is neither ours nor the workload's own comes from budgets.
	seen.crowded = seen.world.Hold != "" && seen.world.Hold != seen.hold && seen.world.Hold != of.Rollout
	return seen, err
}

// budgets returns those of a namespace from the cache.
func (k *keeper) budgets(ctx context.Context, namespace string) ([]*policyv1.PodDisruptionBudget, error) {
	list := &policyv1.PodDisruptionBudgetList{}
	if err := k.client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	all := make([]*policyv1.PodDisruptionBudget, len(list.Items))
	for n := range list.Items {
		all[n] = &list.Items[n]
	}
	return all, nil
}

func versions(budgets []*policyv1.PodDisruptionBudget) string {
	var all []string
	for _, budget := range budgets {
		all = append(all, budget.Name+"@"+budget.ResourceVersion)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// volumesWithin limits the time that the caches of claims and volumes may take to sync when they are first needed.
const volumesWithin = 10 * time.Second

// volumes returns a function that finds the volumes of a pod. Their caches start when the first pod with volumes is to be moved: most
// clusters never need them.
func (k *keeper) volumes(ctx context.Context) func(*corev1.Pod) ([]*corev1.PersistentVolume, error) {
	return func(pod *corev1.Pod) ([]*corev1.PersistentVolume, error) {
		ctx, cancel := context.WithTimeout(ctx, volumesWithin)
		defer cancel()
		var all []*corev1.PersistentVolume
		for _, volume := range pod.Spec.Volumes {
			if volume.PersistentVolumeClaim == nil {
				continue
			}
			found, err := k.volume(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: volume.PersistentVolumeClaim.ClaimName})
			if err != nil {
				return nil, err
			}
			if found != nil {
				all = append(all, found)
			}
		}
		return all, nil
	}
}

// volume returns the volume of a claim, nil if it has none.
func (k *keeper) volume(ctx context.Context, of client.ObjectKey) (*corev1.PersistentVolume, error) {
	claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	err := k.client.Get(ctx, of, claim, client.UnsafeDisableDeepCopy)
	if err == nil && claim.Spec.VolumeName != "" {
		err = k.client.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume, client.UnsafeDisableDeepCopy)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read volume of claim %q: %w", of.Name, err)
	case volume.Name == "":
		return nil, nil
	}
	return volume, nil
}
