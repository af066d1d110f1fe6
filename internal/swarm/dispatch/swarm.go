package dispatch

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/internal/swarm/schedule"
)

// SwarmRules are the settings of a Swarm for assigning work.
type SwarmRules struct {
	Strategy      schedule.Strategy
	Halt          *Wait    // nothing new is assigned, for this reason
	LeavingAgents []string // agents that are to leave: they get nothing new, and what they hold is eventually asked back
}

// A swarmState is what the dispatcher knows about a swarm.
type swarmState struct {
	name             types.NamespacedName
	rules            SwarmRules
	hasRules         bool // SetSwarm was called
	queue            map[types.NamespacedName]*taskState
	awaitedProcesses map[awaitedProcess]time.Duration  // leases of processes from before this leader that have not reported yet
	deferredEnds     map[types.NamespacedName]struct{} // tasks whose end is stored when no process is awaited
	countRequested   bool                              // its controller knows that the holdings of its agents are unknown
	epoch            int64
	dirty            bool
	nextCheck        time.Time // when something happens without a trigger
}

func (d *Dispatcher) swarmOf(name types.NamespacedName) *swarmState {
	swarm := d.swarms[name]
	if swarm == nil {
		swarm = &swarmState{
			name: name, queue: map[types.NamespacedName]*taskState{},
			awaitedProcesses: map[awaitedProcess]time.Duration{}, deferredEnds: map[types.NamespacedName]struct{}{},
		}
		d.swarms[name] = swarm
	}
	return swarm
}

// SetSwarm sets the rules of a swarm.
func (d *Dispatcher) SetSwarm(name types.NamespacedName, rules SwarmRules) {
	d.mu.Lock()
	defer d.mu.Unlock()
	swarm := d.swarmOf(name)
	if !swarm.hasRules {
		d.requeueBlocked(name)
	}
	swarm.rules, swarm.hasRules = rules, true
	now, leavingAgents := time.Now(), map[string]bool{}
	for _, agent := range rules.LeavingAgents {
		leavingAgents[agent] = true
	}
	for _, state := range d.agents {
		if state.swarm == name {
			state.setLeaving(leavingAgents[state.name.Name], now)
		}
	}
	d.wakeSwarm(swarm)
}

// requeueBlocked requests a reconcile of the tasks that waited for their swarm to appear.
func (d *Dispatcher) requeueBlocked(swarm types.NamespacedName) {
	for _, state := range d.tasks {
		if state.swarm == swarm && state.input.Blocked != nil {
			d.config.Tasks.After(state.name, 0)
		}
	}
}

// RemoveSwarm records that a swarm is gone. Tasks that still name it wait.
func (d *Dispatcher) RemoveSwarm(name types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	swarm := d.swarmOf(name)
	swarm.hasRules, swarm.rules = false, SwarmRules{}
}

// CountAttempts counts the attempts that agents hold: of one agent, or of all agents of a swarm if no agent is named. The count is
// known when every agent of the swarm has reported what it runs. Until then no agent may be treated as idle; the dispatcher
// requests a reconcile of the swarm when the count is known.
func (d *Dispatcher) CountAttempts(swarm types.NamespacedName, agent string) (attempts int, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if of := d.swarmOf(swarm); !d.Opened() || !d.recoveringUntil(of, time.Now()).IsZero() {
		of.countRequested = true
		return 0, false
	}
	sum := 0
	for _, state := range d.agents {
		if state.swarm == swarm && (agent == "" || agent == state.name.Name) {
			sum += state.countAttempts()
		}
	}
	return sum, true
}

// EpochToStore returns the epoch that Swarm status should name: the highest that was issued. A stored one that no leader can
// have issued is forged, and the first one of this term replaces it.
func (d *Dispatcher) EpochToStore(name types.NamespacedName, stored int64) (epoch int64, forged bool) {
	if d.isInvalidEpoch(stored) {
		return max(d.Epoch(name), d.config.Leadership.Term()<<32), true
	}
	return max(d.Epoch(name), stored), false
}

// Epoch returns the highest epoch that this leader has issued in a swarm.
func (d *Dispatcher) Epoch(name types.NamespacedName) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if swarm := d.swarms[name]; swarm != nil {
		return swarm.epoch
	}
	return 0
}
