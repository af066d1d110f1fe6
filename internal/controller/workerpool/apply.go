package workerpool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// abreast limits how many pods are nudged in parallel.
const abreast = 8

// apply carries out the plan, in an order that is safe if the operator is killed: a revision is stored before it is published, and only
// published lists are delivered.
func (r *reconciler) apply(ctx context.Context, pool *v1alpha1.WorkerPool, plan *Plan, memory *memory) (err error) {
	memory.reserve(plan.Nudge)
	if plan.Revision != nil {
		if err := r.keep(ctx, pool, *plan.Revision, memory); err != nil {
			return err
		}
	}
	for _, sheet := range plan.Publish {
		if err := r.write(ctx, pool, sheet, memory); err != nil {
			return err
		}
	}
	if err := r.nudge(ctx, plan.Nudge); err != nil {
		return err
	}
	memory.delivered(plan.Nudge, time.Now())
	if plan.Scale != nil {
		if err := r.scale(ctx, pool, *plan.Scale); err != nil {
			return err
		}
	}
	for _, revision := range plan.Discard {
		if err := r.discard(ctx, pool, revision); err != nil {
			return err
		}
	}
	plan.Evicted, err = r.evict(ctx, plan.Evict)
	for _, one := range plan.Evicted {
		memory.witness.take(one.pod.Name, witness{one.version, string(one.pod.UID)})
	}
	return err
}

// nudge patches pods, several in parallel. Pods that are gone or were replaced need nothing.
func (r *reconciler) nudge(ctx context.Context, nudges []nudge) error {
	failed, slots := make(chan error, len(nudges)), make(chan struct{}, abreast)
	for n := range nudges {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			failed <- r.tell(ctx, &nudges[n])
		}()
	}
	var all []error
	for range nudges {
		all = append(all, <-failed)
	}
	return errors.Join(all...)
}

func (r *reconciler) tell(ctx context.Context, one *nudge) error {
	metadata := map[string]any{"uid": one.pod.UID}
	if len(one.labels) > 0 {
		metadata["labels"] = one.labels
	}
	if len(one.annotations) > 0 {
		metadata["annotations"] = one.annotations
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("nudge pod %q: %w", one.pod.Name, err)
	}
	pod := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: one.pod.Namespace, Name: one.pod.Name}}
	pod.SetGroupVersionKind(podKind)
	err = r.client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch))
	if !ignorable(err) {
		return fmt.Errorf("nudge pod %q: %w", one.pod.Name, err)
	}
	if err == nil {
		one.version = pod.ResourceVersion
	}
	return nil
}

// scale sets the number of pods of the workload, and nothing else.
func (r *reconciler) scale(ctx context.Context, pool *v1alpha1.WorkerPool, replicas int32) error {
	of := pool.Spec.Workers
	found, err := r.find(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: of.Name}, of.Kind)
	if err != nil {
		return fmt.Errorf("scale %s %q: %w", of.Kind, of.Name, err)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"spec":{"replicas":%d}}`, found.object.GetResourceVersion(), replicas)
	err = r.client.SubResource("scale").Patch(ctx, found.object, client.RawPatch(types.MergePatchType, patch), client.WithSubResourceBody(&autoscalingv1.Scale{}))
	if err != nil {
		return fmt.Errorf("scale %s %q to %d: %w", of.Kind, of.Name, replicas, err)
	}
	return nil
}

// evict requests the eviction of pods by UID, and returns the evicted ones. A request that a budget refuses is repeated later.
func (r *reconciler) evict(ctx context.Context, evictions []eviction) (gone []eviction, err error) {
	for _, one := range evictions {
		body := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &one.pod.UID}}}
		err := r.client.SubResource("eviction").Create(ctx, one.pod.DeepCopy(), body)
		switch {
		case err == nil:
			gone = append(gone, one)
		case !ignorable(err) && !apierrors.IsTooManyRequests(err):
			return gone, fmt.Errorf("evict pod %q: %w", one.pod.Name, err)
		}
	}
	return gone, nil
}

// ignorable reports whether a write succeeded, or its object is gone or was replaced: the next reconcile reads it again.
func ignorable(err error) bool {
	return err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err)
}
