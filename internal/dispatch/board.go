// Package dispatch is the leader's memory of assignments: which tasks wait, which agent holds which attempt, and until when
// no other agent may have it.
//
// It promises:
//   - An attempt has at most one holder. It is given to another only when the holder has reported that it ended, or can no longer be
//     running: its lease and a margin have passed since it was last heard, or its own process reports that it does not know it.
//   - Epochs only grow. Messages with an older epoch than the task's are refused and counted; their sender is asked to stop.
//   - Only a task's very first assignment is sent before it is written; every other one is sent after Settle has seen it stored.
//   - A result is acknowledged only after Settle has seen it stored, or when it is too old to matter.
//   - After Open nothing is assigned in a swarm until each of its pods has reported what it runs, or a lease and a margin have passed.
//
// It never talks to the API server: controllers pass in what they see (Observe, Enrol, Govern), write what it returns, and confirm
// that it is written (Settle). The board can be lost at any time; it is rebuilt from the API server and the agents.
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

// A Signal requests the reconcile of an object.
type Signal interface {
	After(name types.NamespacedName, delay time.Duration)
}

// Config configures a Board.
type Config struct {
	Lease      time.Duration // of agents whose type sets none
	Leadership Leadership
	Tasks      Signal
	Agents     Signal
	Swarms     Signal
	Metrics    prometheus.Registerer
	Refusals   *limit.Refusals
	Budget     Budget // of each namespace
}

const (
	// margin is how long the operator waits beyond an agent's lease, whatever its length. Agents may need a second to kill their programs.
	margin = 1500 * time.Millisecond
	// drift is the divisor for the part of a lease that is added to that, because clocks do not run at the same rate: two
	// that are slewed in opposite directions differ by a thousandth.
	drift = 500
	// finishing is how long attempts on a leaving agent may continue before they are asked back.
	finishing = 30 * time.Second
	// sweepEvery is the longest delay before a change without its own timer is noticed.
	sweepEvery = 30 * time.Second
)

// A Board tracks which agent works on which task. It is safe for concurrent use, and no method waits.
type Board struct {
	config  Config
	link    Link
	metrics *metrics
	wake    chan struct{}
	pulse   pulse

	ready    chan struct{} // closed by Open
	mu       sync.Mutex
	opened   time.Time // when this leader began to send to agents
	sequence int64
	skipped  int64 // how far Hellos have moved the sequence
	// contested counts the claims of agents to run a task under an epoch that no leader has issued, by the UID of the task.
	contested map[types.UID]int
	// strayed counts what agents report about tasks that the board does not know, by task.
	strayed map[types.NamespacedName]int
	usage   map[string]*usage // by namespace
	tasks   map[types.NamespacedName]*entry
	agents  map[link.Agent]*agent
	swarms  map[types.NamespacedName]*swarm
	// finished has the tasks whose end is stored, and may be unknown to the cache. Each is kept until a reconcile finds it
	// finished or gone, at the latest when it is deleted. So there are never more of them than tasks in the cache.
	finished map[types.NamespacedName]types.UID
}

// New returns an empty board. Call Connect before Open.
func New(config Config) *Board {
	return &Board{
		config: config, metrics: newMetrics(config.Metrics), wake: make(chan struct{}, 1), ready: make(chan struct{}),
		tasks: map[types.NamespacedName]*entry{}, agents: map[link.Agent]*agent{}, swarms: map[types.NamespacedName]*swarm{},
		contested: map[types.UID]int{}, strayed: map[types.NamespacedName]int{}, usage: map[string]*usage{},
		finished: map[types.NamespacedName]types.UID{},
	}
}

// Connect sets the link. The link needs the board to be created, and the board the link.
func (b *Board) Connect(link Link) { b.link = link }

// Run assigns work until the context ends. Call it after Open.
func (b *Board) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	b.pulse.beat()
	defer b.pulse.stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		case <-timer.C:
		}
		timer.Reset(b.step(time.Now()))
		b.pulse.beat()
	}
}

// step does everything that is due, and returns the time until the next step.
func (b *Board) step(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire(now)
	next := now.Add(sweepEvery)
	for _, name := range slices.SortedFunc(maps.Keys(b.swarms), byName) {
		of := b.swarms[name]
		if !of.ruled && len(of.queue) == 0 && len(of.awaited) == 0 && len(of.ends) == 0 && !of.unheard {
			delete(b.swarms, name)
			continue
		}
		next = earliest(next, b.pass(of, now))
	}
	next = earliest(next, b.expireInvitations(now))
	b.metrics.show(b)
	return max(earliest(next, b.expire(now)).Sub(now), time.Millisecond) // including attempts that were just assigned
}

// stir makes Run look at a swarm.
func (b *Board) stir(of *swarm) {
	of.stirred = true
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// nextEpoch returns an epoch above every earlier one, of this leader and of all former ones.
func (b *Board) nextEpoch() int64 {
	if b.sequence == math.MaxUint32 { // a term ends before its sequence does
		b.config.Leadership.RaiseTerm(b.config.Leadership.Term())
		b.sequence, b.skipped = 0, 0
	}
	b.sequence++
	return b.newestEpoch()
}

// newestEpoch returns the latest epoch that this leader has issued, or the end of the terms before its own.
func (b *Board) newestEpoch() int64 { return b.config.Leadership.Term()<<32 + b.sequence }

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
