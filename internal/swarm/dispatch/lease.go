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
	// maxUnstoredLease is the longest lease with which a first assignment may be sent before it is written. A new leader waits at
	// most this long for agents that may have an assignment that was never written.
	maxUnstoredLease = time.Minute
)

// leaseState are those of one agent. The one that it received decides how long it continues to work without an echo. The stored
// one decides how long the next leader waits for it, so it is never shorter than one that was sent.
type leaseState struct {
	requested   time.Duration // by its type; 0 while its object is unknown
	stored      time.Duration // in Agent status; 0 when there is none
	current     time.Duration // on the last stream; 0 before the first
	formerUntil time.Time     // when all leases of earlier streams are over
	former      time.Duration // the longest of them

	loweredVersion string // the version of the object that was to be overwritten with a shorter lease
}

// update records the stored lease and the wanted one. The response to a write may be lost: an object that was to get a shorter
// lease may have it.
func (l *leaseState) update(object *v1alpha1.Agent, requested time.Duration) {
	stored := storedLeaseOf(object)
	if l.loweredVersion != "" && l.loweredVersion == object.ResourceVersion {
		stored = min(stored, l.stored)
	}
	l.requested, l.stored = requested, stored
}

// addFormer records a lease that the agent may use until that time, whatever it receives from now on.
func (l *leaseState) addFormer(lease time.Duration, until, now time.Time) {
	if !now.Before(l.formerUntil) {
		l.former = 0
	}
	l.formerUntil, l.former = latest(l.formerUntil, until), max(l.former, lease)
}

// maxInUse returns the longest lease that any process of the agent may use, as far as this leader has sent or heard it.
func (l *leaseState) maxInUse(now time.Time) time.Duration {
	if now.Before(l.formerUntil) {
		return max(l.current, l.former)
	}
	return l.current
}

// leaseTimeout returns how long after its last sign of life an agent with this lease can still be working.
func leaseTimeout(lease time.Duration) time.Duration {
	return lease + leaseMargin + lease/clockDriftDivisor
}

// storedLeaseOf returns the stored lease.
func storedLeaseOf(agent *v1alpha1.Agent) time.Duration {
	return time.Duration(agent.Status.LeaseSeconds) * time.Second
}

// Lease implements link.Leases: it decides how long an agent may continue to work without an echo on the stream that it has just opened.
func (d *Dispatcher) Lease(name link.Agent, hello *linkv1.Hello) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	agent := d.agentOf(name)
	agent.streamOpen = true
	now := time.Now()
	if heard, known := d.link.LastHeard(name); known && agent.lease.current > 0 {
		agent.lease.addFormer(agent.lease.current, heard.Add(leaseTimeout(agent.lease.current)), now)
	}
	if named := d.helloLease(agent, hello); named > 0 {
		agent.lease.addFormer(named, now.Add(leaseTimeout(named)), now) // the Welcome to this Hello may be lost
	}
	if d.Opened() {
		agent.lease.current = d.permittedLease(agent, hello.GetRunning())
	} else {
		agent.lease.current = d.unconfirmedLease(agent, hello)
	}
	return agent.lease.current
}

// helloLease returns the lease that Hello says the agent uses, or zero. While one is stored, none is believed that is longer
// than those in force: no leader can have sent it.
func (d *Dispatcher) helloLease(agent *agentState, hello *linkv1.Hello) time.Duration {
	named := hello.GetLease().AsDuration()
	if named <= 0 || named > longestLease {
		return 0
	}
	if d.Opened() && agent.lease.stored > 0 {
		return min(named, d.maxLeaseInUse(agent))
	}
	return named
}

// unconfirmedLease returns the lease that an agent received last, as long as this leader does not know the stored one. The stored
// lease may be shorter: it was lowered after this agent's lease had expired. See mayRunUnstored.
func (d *Dispatcher) unconfirmedLease(agent *agentState, hello *linkv1.Hello) time.Duration {
	return cmp.Or(d.helloLease(agent, hello), min(d.config.Lease, ShortestLease))
}

// permittedLease returns the lease that may be sent to an agent that runs these attempts: the one that its type asks for, unless it
// is longer than the one stored in its status and with each of its assignments. For a long one, everything that the agent
// runs must be stored.
func (d *Dispatcher) permittedLease(agent *agentState, running []*linkv1.Attempt) time.Duration {
	lease := agent.lease.stored
	if lease == 0 {
		lease = min(d.config.Lease, ShortestLease)
	}
	if agent.lease.requested > 0 {
		lease = min(lease, agent.lease.requested)
	}
	if lease > maxUnstoredLease && d.runsUnstored(agent, running) {
		lease = maxUnstoredLease
	}
	for _, state := range agent.assignedTasks {
		if with := state.assignment.storedLease; with > 0 {
			lease = min(lease, with)
		}
	}
	return lease
}

// recordStoredLease records the lease that is stored with an assignment. If it was raised, the agent may get a longer one.
func (d *Dispatcher) recordStoredLease(assignment *assignment, lease time.Duration) {
	if assignment.storedLease > 0 && lease > assignment.storedLease {
		d.config.Agents.After(assignment.agent.objectKey(), 0)
	}
	assignment.storedLease = lease
}

// requestLeaseWrites requests a write of an agent's raised lease with its assignments.
func (d *Dispatcher) requestLeaseWrites(agent *agentState) {
	for _, state := range agent.assignedTasks {
		d.config.Tasks.After(state.name, 0)
	}
}

// mayRunUnstored reports whether an agent may get assignments that are not stored yet: the next leader waits for it by the
// stored lease, and for a minute at most.
func (d *Dispatcher) mayRunUnstored(agent *agentState) bool {
	return d.currentLease(agent) <= min(d.storedLease(agent), maxUnstoredLease)
}

func (d *Dispatcher) runsUnstored(agent *agentState, running []*linkv1.Attempt) bool {
	for _, state := range agent.assignedTasks {
		if state.assignment.sent && state.storedEpoch < state.assignment.epoch {
			return true
		}
	}
	for _, attempt := range running {
		if state := d.tasks[taskOf(attempt)]; state == nil || state.storedEpoch < attempt.GetEpoch() {
			return true
		}
	}
	return false
}

// reconnectForLease has an agent reconnect if its lease would now be another one.
func (d *Dispatcher) reconnectForLease(agent *agentState) {
	if agent.linked && agent.lease.current > 0 && agent.lease.current != d.permittedLease(agent, nil) {
		d.link.Disconnect(agent.name, time.Now())
	}
}

// currentLease returns the lease that an agent uses.
func (d *Dispatcher) currentLease(agent *agentState) time.Duration {
	if agent.lease.current > 0 {
		return agent.lease.current
	}
	return d.config.Lease
}

// maxLeaseInUse returns the longest lease that any process of an agent may use, whichever leader sent it.
func (d *Dispatcher) maxLeaseInUse(agent *agentState) time.Duration {
	return max(d.storedLease(agent), agent.lease.maxInUse(time.Now()))
}

// storedLease returns how long the next leader waits for an agent that it does not hear from.
func (d *Dispatcher) storedLease(agent *agentState) time.Duration {
	return cmp.Or(agent.lease.stored, d.config.Lease) // agents of earlier versions have none
}

// leaseToStore returns the lease to be stored for an agent: a longer one before it is sent, a shorter one after every longer one is over.
func (d *Dispatcher) leaseToStore(agent *agentState, now time.Time) time.Duration {
	switch {
	case !d.Opened() || agent.lease.requested == 0:
		return agent.lease.stored
	case agent.lease.stored == 0: // the object may have been recreated while the agent uses a longer lease
		return max(agent.lease.requested, agent.lease.maxInUse(now))
	case agent.lease.requested >= agent.lease.stored:
		return agent.lease.requested
	case agent.hasStream() && agent.lease.current > agent.lease.requested: // also if it was sent just now and the agent was not heard since
		return agent.lease.stored
	}
	end := latest(d.opened.Add(leaseTimeout(agent.lease.stored)), agent.lease.formerUntil)
	if agent.lease.current > agent.lease.requested {
		end = latest(end, d.leaseEnd(agent))
	}
	if now.Before(end) {
		d.config.Agents.After(agent.objectKey(), end.Sub(now))
		return agent.lease.stored
	}
	agent.lease.stored, agent.lease.loweredVersion = agent.lease.requested, agent.objectVersion
	return agent.lease.requested
}

// isLeased reports whether an agent may still use a lease that it was sent. The agent is kept in memory until then, even if
// it was refused: it may have received a Welcome.
func (d *Dispatcher) isLeased(agent *agentState, now time.Time) bool {
	heard, known := d.link.LastHeard(agent.name)
	return known && agent.lease.current > 0 && now.Before(latest(agent.lease.formerUntil, heard.Add(leaseTimeout(agent.lease.current))))
}

// leaseEnd returns when an agent that is no longer heard can no longer be working.
func (d *Dispatcher) leaseEnd(agent *agentState) time.Time {
	return latest(agent.lease.formerUntil, d.lastHeard(agent).Add(leaseTimeout(d.currentLease(agent))))
}

func (d *Dispatcher) lastHeard(agent *agentState) time.Time {
	if heard, known := d.link.LastHeard(agent.name); known {
		return heard
	}
	return time.Now()
}

// helloDeadline returns when an agent that has not reported what it runs can no longer have an assignment that was not written. It
// may have been welcomed before this leader was ready, and have left before its report was complete. The lease is the one
// that was stored when the term began: the Agent object may have been deleted since.
func (d *Dispatcher) helloDeadline(name link.Agent, lease time.Duration) time.Time {
	from := d.opened
	if agent := d.agents[name]; agent != nil {
		from, lease = latest(from, d.lastHeardUnlinked(agent)), max(lease, d.maxLeaseInUse(agent))
	}
	return from.Add(leaseTimeout(min(lease, maxUnstoredLease)))
}

// lastHeardUnlinked returns when an agent that is not linked was last heard; zero if it is linked, or was never heard.
func (d *Dispatcher) lastHeardUnlinked(agent *agentState) time.Time {
	if heard, known := d.link.LastHeard(agent.name); known && !agent.linked {
		return heard
	}
	return time.Time{}
}

// attemptExpiry returns when an attempt can no longer be running; alive is the result for an attempt that its agent has named on its
// stream.
func (d *Dispatcher) attemptExpiry(assignment *assignment, alive time.Time) time.Time {
	expiry := orDefault(assignment.expiresAt, alive)
	if heard := d.lastHeardUnlinked(assignment.agent); assignment.restored && !heard.IsZero() {
		expiry = latest(expiry,
			heard.Add(leaseTimeout(d.currentLease(assignment.agent)))) // the agent may have been welcomed again without being heard out
	}
	return expiry
}
