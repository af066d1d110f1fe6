// Package dispatch is the leader's memory of assignments: which tasks wait, which agent holds which attempt, and until when
// no other agent may have it.
//
// It promises:
//   - An attempt has at most one holder. It is given to another only when the holder has said that it ended, or can no longer be
//     running: its lease and a margin have passed since it was last heard, or its own process says that it does not know of it.
//   - Epochs only grow. What comes with an older epoch than the task's is refused and counted; its sender is asked to stop.
//   - Only a task's very first assignment is sent before it is written; every other one after Settle has seen it stored.
//   - A result is acknowledged only after Settle has seen it stored, or when it is too old to matter.
//   - After Open nothing is given out in a swarm until each of its pods has said what it runs, or a lease and a margin have passed.
//
// It never talks to the API server: controllers pass in what they see (Observe, Enrol, Govern), write what it answers, and confirm
// that it is written (Settle). Everything in here can be lost at any time; the API server and the agents give it back.
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
	// Disconnect ends the stream of an agent that was not heard since a time, which then connects again; false when it was heard.
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

// Config is what a Board needs.
type Config struct {
	Lease      time.Duration // of agents whose type names none
	Leadership Leadership
	Tasks      Signal
	Agents     Signal
	Swarms     Signal
	Metrics    prometheus.Registerer
	Refusals   *limit.Refusals
	Budget     Budget // of each namespace
}

const (
	// margin is what the operator waits beyond an agent's lease, whatever its length. Agents may need a second to kill what runs.
	margin = 1500 * time.Millisecond
	// drift is the part of a lease that it waits beyond that, because clocks do not run at the same rate: two that are slewed in opposite directions
	// differ by a thousandth.
	drift = 500
	// finishing is how long attempts on an agent that is to leave may go on before they are asked back.
	finishing = 30 * time.Second
	// sweepEvery is how late anything is noticed for which no timer was set.
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
	opened   time.Time // when this leader began to speak to agents
	sequence int64
	skipped  int64 // how far Hellos have moved the sequence
	// contested counts the claims of agents to run a task under an epoch that no leader has given out, by the UID of the task.
	contested map[types.UID]int
	// strayed counts what agents report of tasks that the board does not know, by task.
	strayed map[types.NamespacedName]int
	usage   map[string]*usage // by namespace
	tasks   map[types.NamespacedName]*entry
	agents  map[link.Agent]*agent
	swarms  map[types.NamespacedName]*swarm
	// finished has the tasks whose end is stored, and may be unknown to the cache. Each is kept until a reconcile finds it finished or
	// gone, at the latest when it is deleted. So there are never more of them than tasks in the cache.
	finished map[types.NamespacedName]types.UID
}

// New makes an empty board. Connect it before it is opened.
func New(config Config) *Board {
	return &Board{
		config: config, metrics: newMetrics(config.Metrics), wake: make(chan struct{}, 1), ready: make(chan struct{}),
		tasks: map[types.NamespacedName]*entry{}, agents: map[link.Agent]*agent{}, swarms: map[types.NamespacedName]*swarm{},
		contested: map[types.UID]int{}, strayed: map[types.NamespacedName]int{}, usage: map[string]*usage{},
		finished: map[types.NamespacedName]types.UID{},
	}
}

// Connect gives the board its voice. The link needs the board to be made, and the board the link.
func (b *Board) Connect(link Link) { b.link = link }

// Run gives out work until the context ends. Call it after Open.
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

// step does everything that is due, and returns the time until something else is.
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
	return max(earliest(next, b.expire(now)).Sub(now), time.Millisecond) // with what was just given out
}

// stir makes Run look at a swarm.
func (b *Board) stir(of *swarm) {
	of.stirred = true
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// nextEpoch is higher than every one before it, of this leader and of all earlier ones.
func (b *Board) nextEpoch() int64 {
	if b.sequence == math.MaxUint32 { // a term ends before its sequence does
		b.config.Leadership.RaiseTerm(b.config.Leadership.Term())
		b.sequence, b.skipped = 0, 0
	}
	b.sequence++
	return b.newestEpoch()
}

// newestEpoch is the latest that this leader has given out, or the end of the terms before its own.
func (b *Board) newestEpoch() int64 { return b.config.Leadership.Term()<<32 + b.sequence }

func byName(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// earliest is the first of the times that are set.
func earliest(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}
