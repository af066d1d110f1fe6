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
	// budgetAgain is how soon a budget that did not allow an eviction is asked again, if it does not change before.
	budgetAgain = 10 * time.Second
	// crowdedAgain is the same for a pod with several budgets, which only people can put right.
	crowdedAgain = time.Minute
	// changedAgain is how soon a workload is looked at again that has a pod of which the cache has yet to hear something.
	changedAgain = time.Second
	// answerWithin is how long the API server may take to take a pod away. Without a limit, one that asks to be asked later is, for as long
	// as that may be.
	answerWithin = 5 * time.Second
)

// refusal is what budgets have refused.
type refusal struct {
	reason  string
	budgets string // as they were
	until   time.Time
	crowded bool // several budgets cover one pod
}

// stands tells whether there is no sense in asking again yet. Budgets change whenever a pod does, and that makes several of them no fewer.
func (r refusal) stands(seen sight, now time.Time) bool {
	return now.Before(r.until) && (r.budgets == seen.budgets || r.crowded && seen.crowded)
}

// apply takes the pods away that the plan names, one after the other, until one is refused or is not what was seen: in vain is not for
// free, since an eviction that names a former pod of a StatefulSet is charged to the budget for two minutes.
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
		case apierrors.IsNotFound(err), apierrors.IsConflict(err): // it is gone, or no longer what was seen, as others may be
			made.look(of.now.Add(changedAgain))
			return nil
		default:
			return fmt.Errorf("%s pod %q: %w", move.Verb, move.Pod, err)
		}
	}
	return nil
}

// take asks for this very pod to go. One that is deleted because it has no node must still have none: budgets protect it from then on.
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

// refusedBy tells whether an eviction was refused for the sake of a budget, and by what.
func refusedBy(err error) (refusal, bool) {
	switch {
	case err == nil:
		return refusal{}, false
	case strings.Contains(err.Error(), "more than one PodDisruptionBudget"): // has no code or reason of its own
		return refusal{reason: "several PodDisruptionBudgets cover one pod, and evictions are refused then: leave one", crowded: true}, true
	}
	// An API server that has too much to do refuses with the same code, and names no budget.
	cause, is := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
	return refusal{reason: strings.TrimSuffix(cmp.Or(cause.Message, err.Error()), ".")}, is
}

func (r refusal) pause() time.Duration {
	if r.crowded {
		return crowdedAgain
	}
	return budgetAgain
}

// moved notes that a pod goes, for the next decision and for people.
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
