package dispatch

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/internal/schedule"
)

// Rules are the settings of a Swarm for assigning work.
type Rules struct {
	Strategy schedule.Strategy
	Halt     *Wait    // nothing new is assigned, for this reason
	Leaving  []string // agents that are to leave: they get nothing new, and what they hold is eventually asked back
}

// A swarm is what the board knows about one.
type swarm struct {
	name    types.NamespacedName
	rules   Rules
	ruled   bool // Govern was called
	queue   map[types.NamespacedName]*entry
	awaited map[awaitedProcess]time.Duration  // processes from before this leader that have not yet reported what they run: their leases
	ends    map[types.NamespacedName]struct{} // tasks whose end is stored when no process is awaited
	unheard bool                              // its controller knows that the holdings of its agents are unknown
	epoch   int64
	stirred bool
	due     time.Time // when something happens without a trigger
}

func (b *Board) swarmOf(name types.NamespacedName) *swarm {
	known := b.swarms[name]
	if known == nil {
		known = &swarm{
			name: name, queue: map[types.NamespacedName]*entry{},
			awaited: map[awaitedProcess]time.Duration{}, ends: map[types.NamespacedName]struct{}{},
		}
		b.swarms[name] = known
	}
	return known
}

// Govern sets the rules of a swarm.
func (b *Board) Govern(name types.NamespacedName, rules Rules) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.swarmOf(name)
	if !of.ruled {
		b.callBack(name)
	}
	of.rules, of.ruled = rules, true
	now, leaving := time.Now(), map[string]bool{}
	for _, agent := range rules.Leaving {
		leaving[agent] = true
	}
	for _, member := range b.agents {
		if member.swarm == name {
			member.leave(leaving[member.name.Name], now)
		}
	}
	b.stir(of)
}

// callBack requests a reconcile of the tasks that waited for their swarm to appear.
func (b *Board) callBack(swarm types.NamespacedName) {
	for _, task := range b.tasks {
		if task.swarm == swarm && task.brief.Blocked != nil {
			b.config.Tasks.After(task.name, 0)
		}
	}
}

// Dissolve records that a swarm is gone. Tasks that still name it wait.
func (b *Board) Dissolve(name types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.swarmOf(name)
	of.ruled, of.rules = false, Rules{}
}

// Busy counts the attempts that agents hold: of one agent, or of all agents of a swarm if no agent is named. The count is
// known when every agent of the swarm has reported what it runs. Until then no agent may be treated as idle; the board
// requests a reconcile of the swarm when the count is known.
func (b *Board) Busy(swarm types.NamespacedName, agent string) (attempts int, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if of := b.swarmOf(swarm); !b.Opened() || !b.heldBack(of, time.Now()).IsZero() {
		of.unheard = true
		return 0, false
	}
	sum := 0
	for _, member := range b.agents {
		if member.swarm == swarm && (agent == "" || agent == member.name.Name) {
			sum += member.busy()
		}
	}
	return sum, true
}

// EpochToStore returns the epoch that Swarm status should name: the highest that was issued. A stored one that no leader can
// have issued is forged, and the first one of this term replaces it.
func (b *Board) EpochToStore(name types.NamespacedName, stored int64) (epoch int64, forged bool) {
	if b.isInvalid(stored) {
		return max(b.Epoch(name), b.config.Leadership.Term()<<32), true
	}
	return max(b.Epoch(name), stored), false
}

// Epoch returns the highest epoch that this leader has issued in a swarm.
func (b *Board) Epoch(name types.NamespacedName) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if of := b.swarms[name]; of != nil {
		return of.epoch
	}
	return 0
}
