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

	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
)

// workloadSnapshot is the observed state of a workload.
type workloadSnapshot struct {
	constraints
	input          split.Snapshot
	pods           map[string]*corev1.Pod // from the cache: they must not be modified
	nodes          nodeSnapshot
	severalBudgets bool   // several budgets cover one pod
	budgetVersions string // changes whenever a budget changes
}

// observe reads everything once, from caches and memory.
func (c *controller) observe(ctx context.Context, t target) (workloadSnapshot, error) {
	pods, err := c.listPods(ctx, t.Key)
	if err != nil {
		return workloadSnapshot{}, err
	}
	pods = t.state.markRemoved(pods, t.now)
	snap := workloadSnapshot{pods: make(map[string]*corev1.Pod, len(pods))}
	for _, pod := range pods {
		snap.pods[pod.Name] = pod
	}
	if snap.nodes, err = c.nodes.snapshotFor(ctx, pods); err != nil {
		return snap, err
	}
	budgets, err := c.budgets(ctx, t.Key.Namespace)
	if err != nil {
		return snap, err
	}
	snap.budgetVersions = budgetVersions(budgets)
	if snap.constraints, err = c.constraints(ctx, t); err != nil {
		return snap, err
	}
	objects := snapshot.Objects{
		Workload: t.Workload, Spec: t.spec, Pods: pods, Nodes: snap.nodes.byName, Budgets: budgets,
		Volumes: c.volumes(ctx), Hold: snap.hold, History: c.states.history(t.state, snap.nodes, t.now), Now: t.now,
	}
	objects.History.UngatedAt = t.state.ungatedAt(pods, t.now)
	objects.Spec.Problem = cmp.Or(snap.unsupported, t.spec.Problem, snap.invalid)
	snap.input, err = c.settings.Snapshot(objects)
	// A hold that is neither ours nor the workload's own comes from budgets.
	snap.severalBudgets = snap.input.Hold != "" && snap.input.Hold != snap.hold && snap.input.Hold != t.Rollout
	return snap, err
}

// budgets returns those of a namespace from the cache.
func (c *controller) budgets(ctx context.Context, namespace string) ([]*policyv1.PodDisruptionBudget, error) {
	list := &policyv1.PodDisruptionBudgetList{}
	if err := c.client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	all := make([]*policyv1.PodDisruptionBudget, len(list.Items))
	for n := range list.Items {
		all[n] = &list.Items[n]
	}
	return all, nil
}

func budgetVersions(budgets []*policyv1.PodDisruptionBudget) string {
	var versions []string
	for _, budget := range budgets {
		versions = append(versions, budget.Name+"@"+budget.ResourceVersion)
	}
	slices.Sort(versions)
	return strings.Join(versions, ",")
}

// volumeCacheTimeout limits the time that the caches of claims and volumes may take to sync when they are first needed.
const volumeCacheTimeout = 10 * time.Second

// volumes returns a function that finds the volumes of a pod. Their caches start when the first pod with volumes is to be moved: most
// clusters never need them.
func (c *controller) volumes(ctx context.Context) func(*corev1.Pod) ([]*corev1.PersistentVolume, error) {
	return func(pod *corev1.Pod) ([]*corev1.PersistentVolume, error) {
		ctx, cancel := context.WithTimeout(ctx, volumeCacheTimeout)
		defer cancel()
		var all []*corev1.PersistentVolume
		for _, volume := range pod.Spec.Volumes {
			if volume.PersistentVolumeClaim == nil {
				continue
			}
			persistentVolume, err := c.volume(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: volume.PersistentVolumeClaim.ClaimName})
			if err != nil {
				return nil, err
			}
			if persistentVolume != nil {
				all = append(all, persistentVolume)
			}
		}
		return all, nil
	}
}

// volume returns the volume of a claim, nil if it has none.
func (c *controller) volume(ctx context.Context, key client.ObjectKey) (*corev1.PersistentVolume, error) {
	claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	err := c.client.Get(ctx, key, claim, client.UnsafeDisableDeepCopy)
	if err == nil && claim.Spec.VolumeName != "" {
		err = c.client.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume, client.UnsafeDisableDeepCopy)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read volume of claim %q: %w", key.Name, err)
	case volume.Name == "":
		return nil, nil
	}
	return volume, nil
}
