package dispatch

import (
	"cmp"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

const (
	// ShortestLease is the shortest that an agent type can ask for. An agent whose lease is not stored yet gets no longer one.
	ShortestLease = 10 * time.Second
	// longestLease is the longest that an agent type can ask for.
	longestLease = time.Hour
	// storeFirst is the longest lease with which a first assignment may be sent before it is written. A new leader waits at
	// most this long for agents that may have an assignment that was never written.
	storeFirst = time.Minute
)

// leases are those of one agent. The one that it received decides how long it continues to work without an echo. The stored
// one decides how long the next leader waits for it, so it is never shorter than one that was sent.
type leases struct {
	wanted time.Duration // by its type; 0 while its object is unknown
	stored time.Duration // in Agent status; 0 when there is none
	told   time.Duration // on the last stream; 0 before the first
	until  time.Time     // when all leases of earlier streams are over
	former time.Duration // the longest of them

	lowered string // the version of the object that was to be overwritten with a shorter lease
}

// learn records the stored lease and the wanted one. The response to a write may be lost: an object that was to get a shorter
// lease may have it.
func (l *leases) learn(object *v1alpha1.Agent, wanted time.Duration) {
	stored := leaseOf(object)
	if l.lowered != "" && l.lowered == object.ResourceVersion {
		stored = min(stored, l.stored)
	}
	l.wanted, l.stored = wanted, stored
}

// mayGoBy records a lease that the agent may use until that time, whatever it receives from now on.
func (l *leases) mayGoBy(lease time.Duration, until, now time.Time) {
	if !now.Before(l.until) {
		l.former = 0
	}
	l.until, l.former = later(l.until, until), max(l.former, lease)
}

// inForce returns the longest lease that any process of the agent may use, as far as this leader has sent or heard it.
func (l *leases) inForce(now time.Time) time.Duration {
	if now.Before(l.until) {
		return max(l.told, l.former)
	}
	return l.told
}

// lapse returns how long after its last sign of life an agent with this lease can still be working.
func lapse(lease time.Duration) time.Duration { return lease + margin + lease/drift }

// leaseOf returns the stored lease.
func leaseOf(agent *v1alpha1.Agent) time.Duration {
	return time.Duration(agent.Status.LeaseSeconds) * time.Second
}

// Lease implements link.Leases: it decides how long an agent may continue to work without an echo on the stream that it has just opened.
func (b *Board) Lease(name link.Agent, hello *linkv1.Hello) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	member := b.agentOf(name)
	member.attached = true
	now := time.Now()
	if heard, known := b.link.LastHeard(name); known && member.lease.told > 0 {
		member.lease.mayGoBy(member.lease.told, heard.Add(lapse(member.lease.told)), now)
	}
	if named := b.namedLease(member, hello); named > 0 {
		member.lease.mayGoBy(named, now.Add(lapse(named)), now) // the Welcome to this Hello may be lost
	}
	if b.Opened() {
		member.lease.told = b.leaseFor(member, hello.GetRunning())
	} else {
		member.lease.told = b.leaseAgain(member, hello)
	}
	return member.lease.told
}

// namedLease returns the lease that Hello says the agent uses, or zero. While one is stored, none is believed that is longer
// than those in force: no leader can have sent it.
func (b *Board) namedLease(member *agent, hello *linkv1.Hello) time.Duration {
	named := hello.GetLease().AsDuration()
	if named <= 0 || named > longestLease {
		return 0
	}
	if b.Opened() && member.lease.stored > 0 {
		return min(named, b.leaseInForce(member))
	}
	return named
}

// leaseAgain returns the lease that an agent received last, as long as this leader does not know the stored one. The stored
// lease may be shorter: it was lowered after this agent's lease had expired. See mayRunUnstored.
func (b *Board) leaseAgain(member *agent, hello *linkv1.Hello) time.Duration {
	return cmp.Or(b.namedLease(member, hello), min(b.config.Lease, ShortestLease))
}

// leaseFor returns the lease that may be sent to an agent that runs these attempts: the one that its type asks for, unless it
// is longer than the one stored in its status and with each of its assignments. For a long one, everything that the agent
// runs must be stored.
func (b *Board) leaseFor(member *agent, running []*linkv1.Attempt) time.Duration {
	lease := member.lease.stored
	if lease == 0 {
		lease = min(b.config.Lease, ShortestLease)
	}
	if member.lease.wanted > 0 {
		lease = min(lease, member.lease.wanted)
	}
	if lease > storeFirst && b.runsUnstored(member, running) {
		lease = storeFirst
	}
	for _, of := range member.holds {
		if with := of.held.lease; with > 0 {
			lease = min(lease, with)
		}
	}
	return lease
}

// isStoredWith records the lease that is stored with an assignment. If it was raised, the agent may get a longer one.
func (b *Board) isStoredWith(held *hold, lease time.Duration) {
	if held.lease > 0 && lease > held.lease {
		b.config.Agents.After(held.agent.object(), 0)
	}
	held.lease = lease
}

// storeLease requests a write of an agent's raised lease with its assignments.
func (b *Board) storeLease(member *agent) {
	for _, of := range member.holds {
		b.config.Tasks.After(of.name, 0)
	}
}

// mayRunUnstored reports whether an agent may get assignments that are not stored yet: the next leader waits for it by the
// stored lease, and for a minute at most.
func (b *Board) mayRunUnstored(member *agent) bool {
	return b.told(member) <= min(b.storedLease(member), storeFirst)
}

func (b *Board) runsUnstored(member *agent, running []*linkv1.Attempt) bool {
	for _, of := range member.holds {
		if of.held.sent && of.stored < of.held.epoch {
			return true
		}
	}
	for _, attempt := range running {
		if of := b.tasks[taskOf(attempt)]; of == nil || of.stored < attempt.GetEpoch() {
			return true
		}
	}
	return false
}

// relinkForLease has an agent reconnect if its lease would now be another one.
func (b *Board) relinkForLease(member *agent) {
	if member.linked && member.lease.told > 0 && member.lease.told != b.leaseFor(member, nil) {
		b.link.Disconnect(member.name, time.Now())
	}
}

// told returns the lease that an agent uses.
func (b *Board) told(member *agent) time.Duration {
	if member.lease.told > 0 {
		return member.lease.told
	}
	return b.config.Lease
}

// leaseInForce returns the longest lease that any process of an agent may use, whichever leader sent it.
func (b *Board) leaseInForce(member *agent) time.Duration {
	return max(b.storedLease(member), member.lease.inForce(time.Now()))
}

// storedLease returns how long the next leader waits for an agent that it does not hear from.
func (b *Board) storedLease(member *agent) time.Duration {
	return cmp.Or(member.lease.stored, b.config.Lease) // agents of earlier versions have none
}

// leaseToStore returns the lease to be stored for an agent: a longer one before it is sent, a shorter one after every longer one is over.
func (b *Board) leaseToStore(member *agent, now time.Time) time.Duration {
	switch {
	case !b.Opened() || member.lease.wanted == 0:
		return member.lease.stored
	case member.lease.stored == 0: // the object may have been recreated while the agent uses a longer lease
		return max(member.lease.wanted, member.lease.inForce(now))
	case member.lease.wanted >= member.lease.stored:
		return member.lease.wanted
	case member.hasStream() && member.lease.told > member.lease.wanted: // also if it was sent just now and the agent was not heard since
		return member.lease.stored
	}
	over := later(b.opened.Add(lapse(member.lease.stored)), member.lease.until)
	if member.lease.told > member.lease.wanted {
		over = later(over, b.over(member))
	}
	if now.Before(over) {
		b.config.Agents.After(member.object(), over.Sub(now))
		return member.lease.stored
	}
	member.lease.stored, member.lease.lowered = member.lease.wanted, member.version
	return member.lease.wanted
}

// isLeased reports whether an agent may still use a lease that it was sent. The agent is kept in memory until then, even if
// it was refused: it may have received a Welcome.
func (b *Board) isLeased(member *agent, now time.Time) bool {
	heard, known := b.link.LastHeard(member.name)
	return known && member.lease.told > 0 && now.Before(later(member.lease.until, heard.Add(lapse(member.lease.told))))
}

// over returns when an agent that is no longer heard can no longer be working.
func (b *Board) over(member *agent) time.Time {
	return later(member.lease.until, b.lastHeard(member).Add(lapse(b.told(member))))
}

func (b *Board) lastHeard(member *agent) time.Time {
	if heard, known := b.link.LastHeard(member.name); known {
		return heard
	}
	return time.Now()
}

// gateEnds returns when an agent that has not reported what it runs can no longer have an assignment that was not written. It
// may have been welcomed before this leader was ready, and have left before its report was complete. The lease is the one
// that was stored when the term began: the Agent object may have been deleted since.
func (b *Board) gateEnds(name link.Agent, lease time.Duration) time.Time {
	from := b.opened
	if member := b.agents[name]; member != nil {
		from, lease = later(from, b.heardUnlinked(member)), max(lease, b.leaseInForce(member))
	}
	return from.Add(lapse(min(lease, storeFirst)))
}

// heardUnlinked returns when an agent that is not linked was last heard; zero if it is linked, or was never heard.
func (b *Board) heardUnlinked(member *agent) time.Time {
	if heard, known := b.link.LastHeard(member.name); known && !member.linked {
		return heard
	}
	return time.Time{}
}

// expiry returns when an attempt can no longer be running; alive is the result for an attempt that its agent has named on its stream.
func (b *Board) expiry(held *hold, alive time.Time) time.Time {
	over := orElse(held.expires, alive)
	if heard := b.heardUnlinked(held.agent); held.restored && !heard.IsZero() {
		over = later(over, heard.Add(lapse(b.told(held.agent)))) // the agent may have been welcomed again without being heard out
	}
	return over
}
