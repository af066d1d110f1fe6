package spread

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	engine "github.com/swarm-io/swarm-operator/internal/spread"
)

const (
	// budgetAgain is the delay before an eviction refused by a budget is requested again, unless the budget changes before.
	budgetAgain = 10 * time.Second
	// crowdedAgain is the same for a pod with several budgets, which only users can resolve.
	crowdedAgain = time.Minute
	// changedAgain is the delay before a workload is reconciled again if the cache is behind for one of its pods.
	changedAgain = time.Second
	// answerWithin limits the time that the API server may take to remove a pod. Without a limit, the client repeats a request for as
	// long as the server asks it to retry later.
	answerWithin = 5 * time.Second
)

// refusal is what budgets have refused.
type refusal struct {
	reason  string
	budgets string // at that time
	until   time.Time
	crowded bool // several budgets cover one pod
}

// stands reports whether it is still too early to ask again. Budgets change with every pod, but several budgets stay several.
func (r refusal) stands(seen sight, now time.Time) bool {
	return now.Before(r.until) && (r.budgets == seen.budgets || r.crowded && seen.crowded)
}

// apply removes the planned pods one after the other, until one is refused or has changed since it was observed. Failed attempts have a
// cost: an eviction of a replaced StatefulSet pod is charged to the budget for two minutes.
func (k *keeper) apply(ctx context.Context, of subject, seen sight, made *Plan) error {
	for _, move := range made.Moves {
		pod := seen.pods[move.Pod]
		err := k.take(ctx, pod, move.Verb)
		refused, is := refusedBy(err)
		switch {
		case err == nil:
			k.moved(ctx, of, pod, move)
		case is:
			refused.budgets, refused.until = seen.budgets, of.now.Add(refused.pause())
			of.memory.refused = refused
			made.block(refused)
			return nil
		case apierrors.IsNotFound(err), apierrors.IsConflict(err): // it is gone or has changed, and so may others
			made.look(of.now.Add(changedAgain))
			return nil
		default:
			return fmt.Errorf("%s pod %q: %w", move.Verb, move.Pod, err)
		}
	}
	return nil
}

// take removes this very pod. A pod deleted because it has no node must still have none: once it has one, budgets protect it.
func (k *keeper) take(ctx context.Context, pod *corev1.Pod, verb engine.Verb) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	named := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if verb == engine.Delete {
		only := client.Preconditions{UID: &pod.UID}
		if pod.Spec.NodeName == "" {
			only.ResourceVersion = &pod.ResourceVersion
		}
		return k.client.Delete(ctx, named, only)
	}
	body := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}}
	return k.client.SubResource("eviction").Create(ctx, named, body)
}

// refusedBy reports whether an eviction was refused because of a budget, and which one.
func refusedBy(err error) (refusal, bool) {
	switch {
	case err == nil:
		return refusal{}, false
	case strings.Contains(err.Error(), "more than one PodDisruptionBudget"): // has no code or reason of its own
		return refusal{reason: "several PodDisruptionBudgets cover one pod, and evictions are refused then: leave one", crowded: true}, true
	}
	// An overloaded API server refuses with the same code, but names no budget.
	cause, is := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
	return refusal{reason: strings.TrimSuffix(cmp.Or(cause.Message, err.Error()), ".")}, is
}

func (r refusal) pause() time.Duration {
	if r.crowded {
		return crowdedAgain
	}
	return budgetAgain
}

// moved records that a pod is moved, for the next decision and as an event.
func (k *keeper) moved(ctx context.Context, of subject, pod *corev1.Pod, move engine.Move) {
	of.memory.lastMove = of.now
	of.memory.gone[pod.UID] = of.now
	of.memory.news = append(of.memory.news, happening{
		kind: corev1.EventTypeNormal, reason: podRescheduled, about: &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		note: fmt.Sprintf("pod %s goes from %s to %s nodes: %s", pod.Name, move.From, move.To, move.Reason),
	})
	k.metrics.moves.WithLabelValues(string(move.Verb), string(move.From), string(move.To)).Inc()
	log.FromContext(ctx).Info("took a pod away", "pod", types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}.String(), "verb", move.Verb, "from", move.From, "to", move.To, "reason", move.Reason)
}
