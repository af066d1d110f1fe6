package dispatch

import "cmp"

// The lease of an agent is configured in the operator, so another leader may have another one. Agent status has the longest lease in force.

// leaseToSend is the lease that a leader sends to an agent: the configured one, but not a longer one than is stored.
func (t *transition) leaseToSend(r, n uint8) uint8 {
	configured, stored := t.Scenario.Leases[r], cmp.Or(t.store.leases[agentOf(n)], t.Scenario.shortestLease())
	if configured <= stored || !t.Rules.Has(LeaseStoredFirst) {
		return configured
	}
	return stored
}

// leaseBeforeTaskRead is the lease that a leader sends to an agent before it knows which one is stored: the last one that the agent
// received. It is longer than the stored one only if it is over. Agents of earlier versions name it in Hello even then, so
// those of the model do.
func (t *transition) leaseBeforeTaskRead(r, n uint8, m message) uint8 {
	switch {
	case t.replicas[r].termOpened:
		return t.leaseToSend(r, n)
	case m.lease > 0:
		return m.lease
	}
	return t.Scenario.shortestLease()
}

// shortestLease is the lease for an agent about which nothing is known.
func (s Scenario) shortestLease() uint8 {
	return min(s.Leases[0], s.Leases[1], cmp.Or(s.StoredLease, s.Leases[0]))
}

// leaseToCount is the lease that a leader counts with.
func (t *transition) leaseToCount(r, n uint8) uint8 {
	if t.Rules.Has(StoredLeaseCounts) {
		return max(cmp.Or(t.store.leases[agentOf(n)], t.Scenario.Leases[r]), t.replicas[r].links[n].sentLease)
	}
	return t.Scenario.Leases[r]
}

// leaseTimeout is how long an agent must be unheard before its work is given up.
func (t *transition) leaseTimeout(r, n uint8) uint8 {
	if t.Rules.Has(LeaseMargin) {
		return t.leaseToCount(r, n) + margin
	}
	return t.leaseToCount(r, n)
}

// assignmentTimeout is how long a process may continue by the lease that is stored with its assignment. That one is longer
// than the lease in Agent status if a leader repeated it before it knew which one is stored.
func (t *transition) assignmentTimeout(r, n uint8) uint8 {
	if task := t.replicas[r].cache.task; task.owner == n+1 && t.Rules.Has(LeaseWithAssignment) {
		return task.lease + margin
	}
	return 0
}

// gateTimeout is how long a new leader waits for an agent that has not reported what it runs.
func (t *transition) gateTimeout(r, n uint8) uint8 {
	longest := t.Scenario.LongestGate
	switch {
	case longest > 0 && t.store.leases[agentOf(n)] == 0 && t.Rules.Has(MinuteForUnknownPods):
		return longest + margin // by the longest lease with which an assignment may be sent before it is stored
	case longest > 0:
		return min(t.leaseTimeout(r, n), longest+margin)
	}
	return t.leaseTimeout(r, n)
}

// storesBeforeSending reports whether even a first assignment to an agent is stored before it is sent, because the gate of the next
// leader is shorter than the lease: it is not longer than the longest gate, nor than the stored lease.
func (t *transition) storesBeforeSending(r, n uint8) bool {
	if t.replicas[r].links[n].sentLease > t.store.leases[agentOf(n)] && t.Rules.Has(EarlyLeaseStoresFirst) {
		return true
	}
	return t.gateTimeout(r, n) < t.leaseTimeout(r, n) && t.Rules.Has(LongLeaseStoredFirst)
}

// storeLease writes the configured lease into Agent status: a longer one before it is sent, a shorter one after longer leases have run out.
func (t *transition) storeLease(r, n uint8) bool {
	l, storedLease, configured := &t.replicas[r], &t.store.leases[agentOf(n)], t.Scenario.Leases[r]
	if !t.mayAct(r) || !l.termOpened || !l.links[n].open || *storedLease == configured {
		return false
	}
	if configured < *storedLease && (l.longerLeaseTicks > 0 || l.links[n].sentLease > configured) && t.Rules.Has(LeaseLoweredLate) {
		return false
	}
	if configured > *storedLease && t.hasUnstoredAssignment(r, n) && t.Rules.Has(LongLeaseToldLate) {
		return false
	}
	*storedLease = configured
	return true
}

// hasUnstoredAssignment reports whether a process has an assignment that is not stored, although the gate will be shorter than its lease.
func (t *transition) hasUnstoredAssignment(r, n uint8) bool {
	memory, longest := t.replicas[r].memory, t.Scenario.LongestGate
	return longest > 0 && t.Scenario.Leases[r] > longest && memory.state == assigned && memory.owner == n && !memory.written
}
