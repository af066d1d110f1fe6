// Package placement decides on which class of nodes a new pod runs, and restricts the pod to the nodes of that class: it is the
// admission webhook of spread workloads.
//
// It promises:
//   - The pods of a ReplicaSet get the lowest free numbers, so that any number of them has the right mix: created one by one, in a
//     burst, or through several replicas of the operator as long as they reach the leader. A StatefulSet's pods have their ordinals.
//   - A dry run reserves nothing, and a repeated request gets the same answer.
//   - It reads only caches, and writes only the pod in question: its node affinity, tolerations and annotations.
//   - What users set in their templates stays in force.
//   - A failure of ours never rejects a pod: it is admitted without a place, and the controller moves it later.
//
// It ignores pods that have a node already, that no ReplicaSet or StatefulSet controls, or whose workload is not managed.
package placement

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
	"github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

const (
	// patience is how long a cache may lag behind the pod's creator: a pod that is gone, more replicas, a new workload.
	patience = 250 * time.Millisecond
	// overdue is how long after its assignment a number without a pod may be given to another request. The creator and other webhooks may
	// take longer, but then the waiting request takes precedence.
	overdue = 3 * time.Second
	// pause is the time between two looks.
	pause = 10 * time.Millisecond
)

// A Desk assigns places based on a cache and its own memory. Only the leader's desk may do so for all replicas; others can only
// estimate. It is safe for concurrent use.
type Desk struct {
	memory

	reader   client.Reader
	replicas survey.PodLister
	settings survey.Settings
	now      func() time.Time
}

// NewDesk returns a Desk that has assigned nothing. Both reader and replicas read a cache.
func NewDesk(reader client.Reader, replicas survey.PodLister, settings survey.Settings, refusals *limit.Refusals) *Desk {
	return &Desk{memory: newMemory(refusals), reader: reader, replicas: replicas, settings: settings, now: time.Now}
}

// Place implements Asker.
func (d *Desk) Place(ctx context.Context, ask Ask) (Answer, error) {
	if err := ask.validate(); err != nil {
		return Answer{}, err
	}
	answer, sure, err := d.look(ctx, ask, false)
	if sure || err != nil {
		return answer, err
	}
	enough := time.After(patience)
	for last := false; ; {
		select {
		case <-ctx.Done():
			return Answer{}, fmt.Errorf("place a pod of %s: %w", ask.Workload, context.Cause(ctx))
		case <-enough:
			last = true
		case <-time.After(pause):
		}
		if answer, sure, err = d.look(ctx, ask, last); sure || err != nil {
			return answer, err
		}
	}
}

// look answers by what is known now, and reports whether the answer is sure. An implausible one calls for another look, unless this is
// the last.
func (d *Desk) look(ctx context.Context, ask Ask, last bool) (answer Answer, sure bool, err error) {
	workload, err := d.workload(ctx, ask.Workload)
	if apierrors.IsNotFound(err) {
		return Answer{}, last, nil
	}
	if err != nil {
		return Answer{}, false, fmt.Errorf("read %s: %w", ask.Workload, err)
	}
	wish := d.settings.Spec(workload)
	if wish.Policy == nil {
		return Answer{}, true, nil
	}
	number, sure, err := d.number(ctx, ask, sight{workload, *wish.Policy, last})
	if number == spread.Unnumbered || !sure || err != nil {
		return Answer{}, sure, err
	}
	return Answer{Managed: true, Number: number, Class: d.shortage(ask.Workload).ClassFor(*wish.Policy, number)}, true, nil
}

func (d *Desk) workload(ctx context.Context, key survey.Key) (survey.Workload, error) {
	if key.Kind == v1alpha1.WorkloadStatefulSet {
		found := &appsv1.StatefulSet{}
		err := d.reader.Get(ctx, key.NamespacedName, found, client.UnsafeDisableDeepCopy)
		return survey.StatefulSet(found), err
	}
	found := &appsv1.Deployment{}
	err := d.reader.Get(ctx, key.NamespacedName, found, client.UnsafeDisableDeepCopy)
	return survey.Deployment(found), err
}

// sight is the result of one look.
type sight struct {
	survey.Workload

	policy spread.Policy
	last   bool
}

// number returns the pod's number among the replicas. One beyond them is implausible: most likely the cache is stale.
func (d *Desk) number(ctx context.Context, ask Ask, seen sight) (number int, sure bool, err error) {
	if seen.Key.Kind == v1alpha1.WorkloadStatefulSet {
		return d.settings.Number(seen.Workload, &metav1.ObjectMeta{Name: ask.Pod}), true, nil
	}
	numbers := d.numbers(replicaSet{ask.Workload, ask.Hash}, d.now())
	// The pods must be read under the lock: a request with an older list than the one before would free numbers that are taken.
	numbers.lock.Lock()
	defer numbers.lock.Unlock()
	pods, err := d.pods(ctx, ask, seen.Workload)
	if err != nil {
		return spread.Unnumbered, false, err
	}
	numbers.SetPods(seen.policy, seen.Replicas, pods)
	if numbers.CountReservations(d.now()) >= maxOutstanding(seen.Replicas) {
		d.refusals.Count(limit.NumbersPerOwner)
		ask.DryRun = true // it gets a number that is not remembered
	}
	number, sure = choose(numbers.Numbers, ask, seen, d.now())
	return number, sure, nil
}

// maxOutstanding limits the assigned numbers of a ReplicaSet whose pods were not seen. A rollout creates at most twice the replicas.
// The rest belongs to requests that another webhook rejected, or that the API server did not send.
func maxOutstanding(replicas int) int { return 2*replicas + 64 }

// choose takes a number, or waits for a better one.
func choose(from *spread.Numbers, ask Ask, seen sight, now time.Time) (number int, sure bool) {
	number, given := from.ReservedNumber(ask.Request, now)
	lowest := from.LowestFree(now)
	switch {
	case given:
		return number, true
	case lowest >= seen.Replicas && !seen.last:
		return spread.Unnumbered, false
	case ask.DryRun:
		return lowest, true
	case lowest >= seen.Replicas:
		if again, found := from.TakeOver(ask.Request, now, overdue); found {
			return again, true
		}
	}
	return from.Reserve(ask.Request, now), true
}

// pods returns those of the same ReplicaSet.
func (d *Desk) pods(ctx context.Context, ask Ask, workload survey.Workload) ([]spread.Pod, error) {
	found, err := d.replicas(ctx, ask.Workload)
	if err != nil {
		return nil, err
	}
	pods := make([]spread.Pod, 0, len(found))
	for _, pod := range found {
		if pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] != ask.Hash {
			continue
		}
		seen := d.settings.Replica(workload, pod)
		if seen.AssignedClass == "" && pod.Spec.NodeName != "" {
			if seen.NodeClass, err = d.classOf(ctx, pod.Spec.NodeName); err != nil {
				return nil, err
			}
		}
		pods = append(pods, seen)
	}
	return pods, nil
}

// classOf returns the class of a node. It matters for pods created without us: they stand for numbers of the class they run on.
func (d *Desk) classOf(ctx context.Context, name string) (spread.Class, error) {
	node := &corev1.Node{}
	switch err := d.reader.Get(ctx, client.ObjectKey{Name: name}, node, client.UnsafeDisableDeepCopy); {
	case apierrors.IsNotFound(err):
		return spread.OnDemand, nil
	case err != nil:
		return "", fmt.Errorf("read node %q: %w", name, err)
	}
	return d.settings.Node(node).Class, nil
}
