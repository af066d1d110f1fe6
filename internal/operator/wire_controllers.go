package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/controller/agent"
	"github.com/swarm-io/swarm-operator/internal/controller/poollabel"
	"github.com/swarm-io/swarm-operator/internal/controller/swarm"
	"github.com/swarm-io/swarm-operator/internal/controller/task"
	"github.com/swarm-io/swarm-operator/internal/controller/workerpool"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
	"github.com/swarm-io/swarm-operator/kit"
)

// A dispatchRunner connects the dispatcher with the controllers.
type dispatchRunner struct {
	dispatcher            *dispatch.Dispatcher
	tasks, agents, swarms *kit.Trigger
	leadership            leadershipState
	caches                currentCaches
	namespaces            []string // none: the whole cluster
}

// leadershipState is what the dispatcher needs to know of it.
type leadershipState interface {
	dispatch.Leadership
	// SoleLeaderFrom is the time from which no other process can act as the leader.
	SoleLeaderFrom() time.Time
	HasPredecessor() bool
}

// currentCaches can be waited for.
type currentCaches interface {
	GetClient() client.Client
	AwaitCurrent(ctx context.Context, kinds ...kit.Kind) error
}

func newDispatchRunner(operator *kit.Operator, config Config, refusals *limit.Refusals) *dispatchRunner {
	d := &dispatchRunner{
		tasks: &kit.Trigger{}, agents: &kit.Trigger{}, swarms: &kit.Trigger{},
		leadership: operator.Leadership, caches: operator, namespaces: config.namespaceNames(),
	}
	d.dispatcher = dispatch.New(dispatch.Config{
		Lease: config.Link.AgentLease.Duration, Leadership: operator.Leadership,
		Tasks: d.tasks, Agents: d.agents, Swarms: d.swarms, Metrics: ctrlmetrics.Registry, Refusals: refusals,
		Budget: dispatch.Budget{Tasks: config.Limits.TasksPerNamespace, Bytes: config.Limits.BytesPerNamespace.Value()},
	})
	return d
}

// acceptsAgents reports whether agents may be welcomed. A leader that is alone answers heartbeats before it has read everything. Otherwise
// it waits for the snapshot, which shows whether there was another leader at all.
func (d *dispatchRunner) acceptsAgents() bool {
	return d.dispatcher.Opened() || !time.Now().Before(d.leadership.SoleLeaderFrom())
}

// Start implements manager.Runnable, for the time of leadership.
func (d *dispatchRunner) Start(ctx context.Context) error {
	snapshot, err := d.readSnapshot(ctx)
	if soleFrom := d.leadership.SoleLeaderFrom(); err == nil && !snapshot.MayOpen(soleFrom, time.Now()) {
		// Until then a former leader may still finish tasks without this process knowing.
		select {
		case <-time.After(time.Until(soleFrom)):
			snapshot, err = d.readSnapshot(ctx)
		case <-ctx.Done():
		}
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("read the initial snapshot: %w", err)
	}
	if ctx.Err() == nil {
		d.dispatcher.Open(snapshot)
		d.dispatcher.Run(ctx)
	}
	return nil
}

// readSnapshot reads the caches once they have caught up with the API server. A leader that has not seen its predecessor's last writes
// would assign the same work again.
func (d *dispatchRunner) readSnapshot(ctx context.Context) (dispatch.Snapshot, error) {
	swarms, agents, tasks, pods := &v1alpha1.SwarmList{}, &v1alpha1.AgentList{}, &v1alpha1.TaskList{}, &corev1.PodList{}
	agentPods := []client.ListOption{client.HasLabels{v1alpha1.LabelSwarm}}
	if err := d.caches.AwaitCurrent(ctx,
		kit.Kind{List: &v1alpha1.SwarmList{}, Namespaces: d.namespaces}, kit.Kind{List: &v1alpha1.AgentList{}, Namespaces: d.namespaces},
		kit.Kind{List: &v1alpha1.TaskList{}, Namespaces: d.namespaces},
		kit.Kind{List: &corev1.PodList{}, Options: agentPods, Namespaces: d.namespaces},
	); err != nil {
		return dispatch.Snapshot{}, err
	}
	reader := d.caches.GetClient()
	err := errors.Join(reader.List(ctx, swarms), reader.List(ctx, agents), reader.List(ctx, tasks), reader.List(ctx, pods, agentPods...))
	return dispatch.Snapshot{
		Swarms: swarms.Items, Agents: agents.Items, Tasks: tasks.Items, Pods: pods.Items, HasPredecessor: d.leadership.HasPredecessor(),
	}, err
}

func (p deps) addControllers(ctx context.Context) error {
	scope, resync, workers := p.scope, p.config.Controller.ResyncPeriod.Duration, p.config.Controller.Workers
	return errors.Join(
		swarm.Add(ctx, p.Operator, swarm.Options{
			Settings: p.manifestSettings, Dispatcher: p.dispatchRunner.dispatcher, Trigger: p.dispatchRunner.swarms, Scope: scope, Resync: resync,
			Workers: workers,
			Clock:   p.skew,
		}),
		agent.Add(p.Operator, agent.Options{
			Dispatcher: p.dispatchRunner.dispatcher, Trigger: p.dispatchRunner.agents, Scope: scope, Resync: resync, Workers: workers,
		}),
		task.Add(p.Operator, task.Options{
			Dispatcher: p.dispatchRunner.dispatcher, Trigger: p.dispatchRunner.tasks, Scope: scope, Workers: workers, Clock: p.skew,
		}),
		workerpool.Add(ctx, p.Operator, workerpool.Options{Pods: p.pods, Scope: scope, Resync: resync, Workers: workers,
			PerWorkerUnsupported: p.config.perWorkerDisabledReason()}),
		poollabel.Add(ctx, p.Operator, poollabel.Options{Scope: scope, Workers: workers}),
	)
}
