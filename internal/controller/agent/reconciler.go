// Package agent reports the state of each agent of a swarm: its pod, its link to the operator, its peers and its load.
//
// It promises that an Agent shows why it cannot work and what to do about it; that load and heartbeats never cause more than one write in
// ten seconds; and that an agent whose object is deleted gets no more work. It never starts or stops anything.
package agent

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
	"github.com/swarm-io/swarm-operator/kit"
)

// name is the controller's name in logs, metrics and events.
const name = "agent"

// Options are the configuration of this controller.
type Options struct {
	Dispatcher *dispatch.Dispatcher
	Trigger    *kit.Trigger // with which the dispatcher requests a reconcile
	Scope      *kit.Scope
	Resync     time.Duration
	Workers    int
}

type reconciler struct {
	client     client.Client
	status     *kit.Status[*v1alpha1.Agent]
	dispatcher *dispatch.Dispatcher
}

// Add adds the Agent controller to the operator.
func Add(operator *kit.Operator, options Options) error {
	status := kit.NewStatus[*v1alpha1.Agent](operator, name).Throttled(statusWriteInterval, clearWorkload)
	r := &reconciler{client: operator.GetClient(), status: status, dispatcher: options.Dispatcher}
	return kit.New[*v1alpha1.Agent](operator, name).
		Watches(&corev1.Pod{}, agentOfPod).
		Watches(&v1alpha1.Swarm{}, r.agentsOfSwarm, membershipChanged()).
		TriggeredBy(options.Trigger).
		OnDeleted(kit.Forget(options.Dispatcher.RemoveAgent)).
		Namespaces(options.Scope).
		ResyncPeriod(options.Resync).
		Concurrency(options.Workers).
		Build(r)
}

// Reconcile updates the status of an Agent.
func (r *reconciler) Reconcile(ctx context.Context, agent *v1alpha1.Agent) (kit.Result, error) {
	snapshot, err := r.observe(ctx, agent)
	if err != nil {
		return kit.Done(), err
	}
	for _, process := range snapshot.endedProcesses() {
		r.dispatcher.MarkProcessEnded(client.ObjectKeyFromObject(agent), process)
	}
	result, err := r.report(ctx, agent, plan(agent, snapshot))
	if err == nil {
		r.dispatcher.SetAgent(agent, requestedLease(agent, snapshot.swarm)) // with what is stored now
	}
	return result, err
}

// agentOfPod finds the Agent of a pod.
func agentOfPod(_ context.Context, pod client.Object) []types.NamespacedName {
	if pod.GetLabels()[v1alpha1.LabelSwarm] == "" {
		return nil
	}
	return []types.NamespacedName{client.ObjectKeyFromObject(pod)}
}

// membershipChanged passes the changes of a swarm that its agents show. A swarm's status changes often, and each change that passes
// reconciles all of its agents.
func membershipChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(update event.UpdateEvent) bool {
		before, after := update.ObjectOld.(*v1alpha1.Swarm), update.ObjectNew.(*v1alpha1.Swarm)
		return before.Generation != after.Generation || !slices.Equal(desiredCounts(before), desiredCounts(after))
	}}
}

// agentsOfSwarm finds the agents of a swarm, whose peers change with it.
func (r *reconciler) agentsOfSwarm(ctx context.Context, swarm client.Object) []types.NamespacedName {
	agents := &v1alpha1.AgentList{}
	if err := kit.ListOwned(ctx, r.client, swarm, agents); err != nil {
		return nil // the cache is not ready: every agent is still to be reconciled
	}
	names := make([]types.NamespacedName, 0, len(agents.Items))
	for n := range agents.Items {
		names = append(names, client.ObjectKeyFromObject(&agents.Items[n]))
	}
	return names
}
