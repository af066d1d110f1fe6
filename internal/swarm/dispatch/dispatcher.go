// Package dispatch is the leader's memory of assignments: which tasks wait, which agent holds which attempt, and until when
// no other agent may have it.
//
// It promises:
//   - An attempt has at most one holder. It is given to another only when the holder has reported that it ended, or can no longer be
//     running: its lease and a margin have passed since it was last heard, or its own process reports that it does not know it.
//   - Epochs only grow. Messages with an older epoch than the task's are refused and counted; their sender is asked to stop.
//   - Only a task's very first assignment is sent before it is written; every other one is sent after MarkStored has seen it stored.
//   - A result is acknowledged only after MarkStored has seen it stored, or when it is too old to matter.
//   - After Open nothing is assigned in a swarm until each of its pods has reported what it runs, or a lease and a margin have passed.
//
// It never talks to the API server: controllers pass in what they see (Observe, SetAgent, SetSwarm), write what it returns, and confirm
// that it is written (MarkStored). The dispatcher can be lost at any time; it is rebuilt from the API server and the agents.
package dispatch

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// A Link carries messages to agents.
type Link interface {
	Send(agent link.Agent, message *linkv1.OperatorMessage) error
	LastHeard(agent link.Agent) (time.Time, bool)
	// Disconnect ends the stream of an agent that was not heard since the given time, which then reconnects. It returns
	// false if the agent was heard.
	Disconnect(agent link.Agent, unheardSince time.Time) bool
}

// Leadership counts terms.
type Leadership interface {
	Term() int64
	RaiseTerm(above int64) int64
}

// A Trigger requests the reconcile of an object.
type Trigger interface {
	After(name types.NamespacedName, delay time.Duration)
}

// Config configures a Dispatcher.
type Config struct {
	Lease      time.Duration // of agents whose type sets none
	Leadership Leadership
	Tasks      Trigger
	Agents     Trigger
	Swarms     Trigger
	Metrics    prometheus.Registerer
	Refusals   *limit.Refusals
	Budget     Budget // of each namespace
}

const (
	// leaseMargin is how long the operator waits beyond an agent's lease, whatever its length. Agents may need a second to kill their
	// programs.
	leaseMargin = 1500 * time.Millisecond
	// clockDriftDivisor is the divisor for the part of a lease that is added to that, because clocks do not run at the same rate: two
	// that are slewed in opposite directions differ by a thousandth.
	clockDriftDivisor = 500
	// leaveGracePeriod is how long attempts on a leaving agent may continue before they are asked back.
	leaveGracePeriod = 30 * time.Second
	// sweepInterval is the longest delay before a change without its own timer is noticed.
	sweepInterval = 30 * time.Second
)

// A Dispatcher tracks which agent works on which task. It is safe for concurrent use, and no method waits.
type Dispatcher struct {
	config   Config
	link     Link
	metrics  *metrics
	wake     chan struct{}
	liveness liveness

	ready    chan struct{} // closed by Open
	mu       sync.Mutex
	opened   time.Time // when this leader began to send to agents
	sequence int64
	skipped  int64 // how far Hellos have moved the sequence
	// contestedTasks counts the claims of agents to run a task under an epoch that no leader has issued, by the UID of the task.
	contestedTasks map[types.UID]int
	// orphanedTasks counts what agents report about tasks that the dispatcher does not know, by task.
	orphanedTasks map[types.NamespacedName]int
	usage         map[string]*namespaceUsage // by namespace
	tasks         map[types.NamespacedName]*taskState
	agents        map[link.Agent]*agentState
	swarms        map[types.NamespacedName]*swarmState
	// finished has the tasks whose end is stored, and may be unknown to the cache. Each is kept until a reconcile finds it
	// finished or gone, at the latest when it is deleted. So there are never more of them than tasks in the cache.
	finished map[types.NamespacedName]types.UID
}

// New returns an empty dispatcher. Call Connect before Open.
func New(config Config) *Dispatcher {
	return &Dispatcher{
		config: config, metrics: newMetrics(config.Metrics), wake: make(chan struct{}, 1), ready: make(chan struct{}),
		tasks: map[types.NamespacedName]*taskState{}, agents: map[link.Agent]*agentState{}, swarms: map[types.NamespacedName]*swarmState{},
		contestedTasks: map[types.UID]int{}, orphanedTasks: map[types.NamespacedName]int{}, usage: map[string]*namespaceUsage{},
		finished: map[types.NamespacedName]types.UID{},
	}
}

// Connect sets the link. The link needs the dispatcher to be created, and the dispatcher the link.
func (d *Dispatcher) Connect(link Link) { d.link = link }

// Run assigns work until the context ends. Call it after Open.
func (d *Dispatcher) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	d.liveness.recordStep()
	defer d.liveness.reset()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		case <-timer.C:
		}
		timer.Reset(d.step(time.Now()))
		d.liveness.recordStep()
	}
}

// step does everything that is due, and returns the time until the next step.
func (d *Dispatcher) step(now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire(now)
	next := now.Add(sweepInterval)
	for _, name := range slices.SortedFunc(maps.Keys(d.swarms), byName) {
		swarm := d.swarms[name]
		if !swarm.hasRules && len(swarm.queue) == 0 && len(swarm.awaitedProcesses) == 0 && len(swarm.deferredEnds) == 0 && !swarm.countRequested {
			delete(d.swarms, name)
			continue
		}
		next = earliest(next, d.assignTasks(swarm, now))
	}
	next = earliest(next, d.expireReservations(now))
	d.metrics.update(d)
	return max(earliest(next, d.expire(now)).Sub(now), time.Millisecond) // including attempts that were just assigned
}

// wakeSwarm makes Run look at a swarm.
func (d *Dispatcher) wakeSwarm(swarm *swarmState) {
	swarm.dirty = true
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// nextEpoch returns an epoch above every earlier one, of this leader and of all former ones.
func (d *Dispatcher) nextEpoch() int64 {
	if d.sequence == math.MaxUint32 { // a term ends before its sequence does
		d.config.Leadership.RaiseTerm(d.config.Leadership.Term())
		d.sequence, d.skipped = 0, 0
	}
	d.sequence++
	return d.newestEpoch()
}

// newestEpoch returns the latest epoch that this leader has issued, or the end of the terms before its own.
func (d *Dispatcher) newestEpoch() int64 { return d.config.Leadership.Term()<<32 + d.sequence }

func byName(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// earliest returns the earliest of the times that are set.
func earliest(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}
