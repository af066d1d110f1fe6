// Package allocator gives the pods of spread workloads their numbers, which decide on which class of nodes a pod runs.
//
// It promises:
//   - The pods of a ReplicaSet get the lowest free numbers, so that any number of them has the right mix: created one by one, in a
//     burst, or through several replicas of the operator as long as they reach the leader. A StatefulSet's pods have their ordinals.
//   - A dry run reserves nothing, and a repeated request gets the same answer.
//
// It reads only caches, and writes nothing.
package allocator

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
)

const (
	// maxCacheLag is how long a cache may lag behind the pod's creator: a pod that is gone, more replicas, a new workload. A replica that
	// asks the leader waits for 1 s, and the API server for 2 s. On a busy machine, caches lag by 400 ms.
	maxCacheLag = 600 * time.Millisecond
	// takeOverAfter is how long after its assignment a number without a pod may be given to another request. The creator and other webhooks
	// may take longer, but then the waiting request takes precedence.
	takeOverAfter = 3 * time.Second
	// retryInterval is the time between two looks.
	retryInterval = 10 * time.Millisecond
)

// An Allocator assigns places based on a cache and its own memory. Only the leader's allocator may do so for all replicas; others
// can only estimate. It is safe for concurrent use.
type Allocator struct {
	state

	reader   client.Reader
	listPods workloads.PodLister
	settings snapshot.Settings
	now      func() time.Time
}

// New returns an Allocator that has assigned nothing. Both reader and replicas read a cache.
func New(reader client.Reader, replicas workloads.PodLister, settings snapshot.Settings, refusals *limit.Refusals) *Allocator {
	return &Allocator{state: newState(refusals), reader: reader, listPods: replicas, settings: settings, now: time.Now}
}

// Place implements Placer.
func (a *Allocator) Place(ctx context.Context, request Request) (Placement, error) {
	if err := request.Validate(); err != nil {
		return Placement{}, err
	}
	placement, final, err := a.tryPlace(ctx, request, false)
	if final || err != nil {
		return placement, err
	}
	timeout := time.After(maxCacheLag)
	for lastTry := false; ; {
		select {
		case <-ctx.Done():
			return Placement{}, fmt.Errorf("place a pod of %s: %w", request.Workload, context.Cause(ctx))
		case <-timeout:
			lastTry = true
		case <-time.After(retryInterval):
		}
		if placement, final, err = a.tryPlace(ctx, request, lastTry); final || err != nil {
			return placement, err
		}
	}
}

// tryPlace answers by what is known now, and reports whether the answer is sure. An implausible one calls for another look, unless this is
// the last.
func (a *Allocator) tryPlace(ctx context.Context, request Request, lastTry bool) (answer Placement, final bool, err error) {
	workload, err := a.workload(ctx, request.Workload)
	if apierrors.IsNotFound(err) {
		return Placement{}, lastTry, nil
	}
	if err != nil {
		return Placement{}, false, fmt.Errorf("read %s: %w", request.Workload, err)
	}
	spec := a.settings.Spec(workload)
	if spec.Policy == nil {
		return Placement{}, true, nil
	}
	number, final, err := a.numberFor(ctx, request, target{workload, *spec.Policy, lastTry})
	if number == split.Unnumbered || !final || err != nil {
		return Placement{}, final, err
	}
	return Placement{Managed: true, Number: number, Class: a.classStatesOf(request.Workload).ClassFor(*spec.Policy, number)}, true, nil
}

func (a *Allocator) workload(ctx context.Context, key workloads.Key) (workloads.Workload, error) {
	if key.Kind == v1alpha1.WorkloadStatefulSet {
		found := &appsv1.StatefulSet{}
		err := a.reader.Get(ctx, key.NamespacedName, found, client.UnsafeDisableDeepCopy)
		return workloads.StatefulSet(found), err
	}
	found := &appsv1.Deployment{}
	err := a.reader.Get(ctx, key.NamespacedName, found, client.UnsafeDisableDeepCopy)
	return workloads.Deployment(found), err
}

// target is the result of one look.
type target struct {
	workloads.Workload

	policy  split.Policy
	lastTry bool
}

// numberFor returns the pod's number among the replicas. One beyond them is implausible: most likely the cache is stale.
func (a *Allocator) numberFor(ctx context.Context, request Request, target target) (number int, final bool, err error) {
	if target.Key.Kind == v1alpha1.WorkloadStatefulSet {
		return a.settings.Number(target.Workload, &metav1.ObjectMeta{Name: request.PodName}), true, nil
	}
	numbers := a.numbersOf(replicaSetKey{request.Workload, request.TemplateHash}, a.now())
	// The pods must be read under the lock: a request with an older list than the one before would free numbers that are taken.
	numbers.lock.Lock()
	defer numbers.lock.Unlock()
	pods, err := a.podsOfTemplate(ctx, request, target.Workload)
	if err != nil {
		return split.Unnumbered, false, err
	}
	numbers.SetPods(target.policy, target.Replicas, pods)
	if numbers.CountReservations(a.now()) >= maxOutstanding(target.Replicas) {
		a.refusals.Count(limit.NumbersPerOwner)
		request.DryRun = true // it gets a number that is not remembered
	}
	number, final = chooseNumber(numbers.Numbers, request, target, a.now())
	return number, final, nil
}

// maxOutstanding limits the assigned numbers of a ReplicaSet whose pods were not seen. A rollout creates at most twice the replicas.
// The rest belongs to requests that another webhook rejected, or that the API server did not send.
func maxOutstanding(replicas int) int { return 2*replicas + 64 }

// chooseNumber takes a number, or waits for a better one.
func chooseNumber(numbers *split.Numbers, request Request, target target, now time.Time) (number int, sure bool) {
	number, ok := numbers.ReservedNumber(request.UID, now)
	lowest := numbers.LowestFree(now)
	switch {
	case ok:
		return number, true
	case lowest >= target.Replicas && !target.lastTry:
		return split.Unnumbered, false
	case request.DryRun:
		return lowest, true
	case lowest >= target.Replicas:
		if again, found := numbers.TakeOver(request.UID, now, takeOverAfter); found {
			return again, true
		}
	}
	return numbers.Reserve(request.UID, now), true
}

// podsOfTemplate returns those of the same ReplicaSet.
func (a *Allocator) podsOfTemplate(ctx context.Context, request Request, workload workloads.Workload) ([]split.Pod, error) {
	all, err := a.listPods(ctx, request.Workload)
	if err != nil {
		return nil, err
	}
	pods := make([]split.Pod, 0, len(all))
	for _, pod := range all {
		if pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] != request.TemplateHash {
			continue
		}
		replica := a.settings.Replica(workload, pod)
		if replica.AssignedClass == "" && pod.Spec.NodeName != "" {
			if replica.NodeClass, err = a.classOf(ctx, pod.Spec.NodeName); err != nil {
				return nil, err
			}
		}
		pods = append(pods, replica)
	}
	return pods, nil
}

// classOf returns the class of a node. It matters for pods created without us: they stand for numbers of the class they run on.
func (a *Allocator) classOf(ctx context.Context, name string) (split.Class, error) {
	node := &corev1.Node{}
	switch err := a.reader.Get(ctx, client.ObjectKey{Name: name}, node, client.UnsafeDisableDeepCopy); {
	case apierrors.IsNotFound(err):
		return split.OnDemand, nil
	case err != nil:
		return "", fmt.Errorf("read node %q: %w", name, err)
	}
	return a.settings.Node(node).Class, nil
}
