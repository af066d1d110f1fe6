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

	"github.com/swarm-io/swarm-operator/internal/spread/plan"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
)

const (
	// budgetRetryDelay is the delay before an eviction refused by a budget is requested again, unless the budget changes before.
	budgetRetryDelay = 10 * time.Second
	// severalBudgetsRetryDelay is the same for a pod with several budgets, which only users can resolve.
	severalBudgetsRetryDelay = time.Minute
	// conflictRetryDelay is the delay before a workload is reconciled again if the cache is behind for one of its pods.
	conflictRetryDelay = time.Second
	// removeTimeout limits the time that the API server may take to remove a pod. Without a limit, the client repeats a request for as
	// long as the server asks it to retry later.
	removeTimeout = 5 * time.Second
)

// refusal is what budgets have refused.
type refusal struct {
	plan.Refusal

	budgetVersions string // at that time
}

// isActive reports whether it is still too early to ask again. Budgets change with every pod, but several budgets stay several.
func (r refusal) isActive(seen workloadSnapshot, now time.Time) bool {
	return now.Before(r.RetryAt) && (r.budgetVersions == seen.budgetVersions || r.SeveralBudgets && seen.input.SeveralBudgets)
}

// apply removes the planned pods one after the other, until one is refused or has changed since it was observed. Failed attempts have a
// cost: an eviction of a replaced StatefulSet pod is charged to the budget for two minutes.
func (c *controller) apply(ctx context.Context, t target, snap workloadSnapshot, plan *plan.Plan) error {
	for _, move := range plan.Moves {
		pod := snap.pods[move.Pod]
		err := c.removePod(ctx, pod, move.Verb)
		refused, ok := parseRefusal(err)
		switch {
		case err == nil:
			c.recordMove(ctx, t, pod, move)
		case ok:
			refused.budgetVersions, refused.RetryAt = snap.budgetVersions, t.now.Add(refused.retryDelay())
			t.state.lastRefusal = refused
			plan.SetBlocked(refused.Refusal)
			return nil
		case apierrors.IsNotFound(err), apierrors.IsConflict(err): // it is gone or has changed, and so may others
			plan.ScheduleRecheck(t.now.Add(conflictRetryDelay))
			return nil
		default:
			return fmt.Errorf("%s pod %q: %w", move.Verb, move.Pod, err)
		}
	}
	return nil
}

// removePod removes this very pod. A pod deleted because it has no node must still have none: once it has one, budgets protect it.
func (c *controller) removePod(ctx context.Context, pod *corev1.Pod, verb split.Verb) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if verb == split.Delete {
		preconditions := client.Preconditions{UID: &pod.UID}
		if pod.Spec.NodeName == "" {
			preconditions.ResourceVersion = &pod.ResourceVersion
		}
		return c.client.Delete(ctx, object, preconditions)
	}
	body := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}}
	return c.client.SubResource("eviction").Create(ctx, object, body)
}

// parseRefusal reports whether an eviction was refused because of a budget, and which one.
func parseRefusal(err error) (refusal, bool) {
	switch {
	case err == nil:
		return refusal{}, false
	case strings.Contains(err.Error(), "more than one PodDisruptionBudget"): // has no code or reason of its own
		return newRefusal("several PodDisruptionBudgets cover one pod, and evictions are refused then: leave one", true), true
	}
	// An overloaded API server refuses with the same code, but names no budget.
	cause, is := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
	return newRefusal(strings.TrimSuffix(cmp.Or(cause.Message, err.Error()), "."), false), is
}

func newRefusal(reason string, severalBudgets bool) refusal {
	return refusal{Refusal: plan.Refusal{Reason: reason, SeveralBudgets: severalBudgets}}
}

func (r refusal) retryDelay() time.Duration {
	if r.SeveralBudgets {
		return severalBudgetsRetryDelay
	}
	return budgetRetryDelay
}

// recordMove records that a pod is moved, for the next decision and as an event.
func (c *controller) recordMove(ctx context.Context, t target, pod *corev1.Pod, move split.Move) {
	t.state.lastMove = t.now
	t.state.removedPods[pod.UID] = t.now
	t.state.pendingEvents = append(t.state.pendingEvents, pendingEvent{
		eventType: corev1.EventTypeNormal, reason: podRescheduled,
		related: &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		note:    fmt.Sprintf("pod %s moves from %s to %s nodes: %s", pod.Name, move.From, move.To, move.Reason),
	})
	c.metrics.moves.WithLabelValues(string(move.Verb), string(move.From), string(move.To)).Inc()
	log.FromContext(ctx).Info("removed pod", "pod", types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}.String(), "verb",
		move.Verb, "from", move.From, "to", move.To, "reason", move.Reason)
}
