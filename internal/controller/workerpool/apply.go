package workerpool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
	poolstate "github.com/swarm-io/swarm-operator/internal/pool/state"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// maxParallelRequests limits how many pods are nudged in parallel.
const maxParallelRequests = 8

// apply carries out the plan, in an order that is safe if the operator is killed: a revision is stored before it is published, and only
// published lists are delivered.
func (r *reconciler) apply(ctx context.Context, pool *v1alpha1.WorkerPool, next *plan.Plan, state *localState) (err error) {
	state.clocks.ReserveSlots(next.Nudges)
	if next.NewRevision != nil {
		if err := r.storeRevision(ctx, pool, *next.NewRevision, state); err != nil {
			return err
		}
	}
	for _, cm := range next.ConfigMaps {
		if err := r.writeConfigMap(ctx, pool, cm, state); err != nil {
			return err
		}
	}
	if err := r.nudgePods(ctx, next.Nudges); err != nil {
		return err
	}
	state.clocks.RecordNudges(next.Nudges, time.Now())
	if next.ScaleTo != nil {
		if err := r.scaleWorkload(ctx, pool, *next.ScaleTo); err != nil {
			return err
		}
	}
	for _, revision := range next.ObsoleteRevisions {
		if err := r.deleteRevision(ctx, pool, revision); err != nil {
			return err
		}
	}
	next.Evicted, err = r.evictPods(ctx, next.Evictions)
	state.clocks.RecordEvictions(next.Evicted)
	return err
}

// nudgePods patches pods, several in parallel. Pods that are gone or were replaced need nothing.
func (r *reconciler) nudgePods(ctx context.Context, nudges []plan.Nudge) error {
	var patches errgroup.Group
	patches.SetLimit(maxParallelRequests)
	errs := make([]error, len(nudges))
	for n := range nudges {
		patches.Go(func() error {
			errs[n] = r.patchPod(ctx, &nudges[n])
			return nil
		})
	}
	_ = patches.Wait() // every pod is tried
	return errors.Join(errs...)
}

func (r *reconciler) patchPod(ctx context.Context, n *plan.Nudge) error {
	metadata := map[string]any{"uid": n.Pod.UID}
	if len(n.Labels) > 0 {
		metadata["labels"] = n.Labels
	}
	if len(n.Annotations) > 0 {
		metadata["annotations"] = n.Annotations
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("nudge pod %q: %w", n.Pod.Name, err)
	}
	pod := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: n.Pod.Namespace, Name: n.Pod.Name}}
	pod.SetGroupVersionKind(podKind)
	err = r.client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch))
	if !isIgnorable(err) {
		return fmt.Errorf("nudge pod %q: %w", n.Pod.Name, err)
	}
	if err == nil {
		n.ResourceVersion = pod.ResourceVersion
	}
	return nil
}

// scaleWorkload sets the number of pods of the workload, and nothing else.
func (r *reconciler) scaleWorkload(ctx context.Context, pool *v1alpha1.WorkerPool, replicas int32) error {
	ref := pool.Spec.Workers
	object, _, err := poolstate.Workload(ctx, r.client, pool)
	if err != nil {
		return fmt.Errorf("scale %s %q: %w", ref.Kind, ref.Name, err)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"spec":{"replicas":%d}}`, object.GetResourceVersion(), replicas)
	err = r.client.SubResource("scale").Patch(ctx, object, client.RawPatch(types.MergePatchType, patch),
		client.WithSubResourceBody(&autoscalingv1.Scale{}))
	if err != nil {
		return fmt.Errorf("scale %s %q to %d: %w", ref.Kind, ref.Name, replicas, err)
	}
	return nil
}

// evictPods requests the eviction of pods by UID, and returns the evicted ones. A request that a budget refuses is repeated later.
func (r *reconciler) evictPods(ctx context.Context, evictions []plan.Eviction) (evicted []plan.Eviction, err error) {
	for _, e := range evictions {
		body := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &e.Pod.UID}}}
		err := r.client.SubResource("eviction").Create(ctx, e.Pod.DeepCopy(), body)
		switch {
		case err == nil:
			evicted = append(evicted, e)
		case !isIgnorable(err) && !apierrors.IsTooManyRequests(err):
			return evicted, fmt.Errorf("evict pod %q: %w", e.Pod.Name, err)
		}
	}
	return evicted, nil
}

// isIgnorable reports whether a write succeeded, or its object is gone or was replaced: the next reconcile reads it again.
func isIgnorable(err error) bool {
	return err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err)
}
