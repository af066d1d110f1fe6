package dispatch

import "cmp"

// The lease of an agent is configured in the operator, so another leader may have another one. Agent status has the longest lease in force.

// told is the lease that a leader sends to an agent: the configured one, but not a longer one than is stored.
func (t *transition) told(r, n uint8) uint8 {
	configured, stored := t.Scenario.Leases[r], cmp.Or(t.store.leases[nameOf(n)], t.Scenario.shortestLease())
	if configured <= stored || !t.Rules.Has(LeaseStoredFirst) {
		return configured
	}
	return stored
}

// toldAgain is the lease that a leader sends to an agent before it knows which one is stored: the last one that the agent
// received. It is longer than the stored one only if it is over. Agents of earlier versions name it in Hello even then, so
// those of the model do.
func (t *transition) toldAgain(r, n uint8, m message) uint8 {
	switch {
	case t.replicas[r].opened:
		return t.told(r, n)
	case m.lease > 0:
		return m.lease
	}
	return t.Scenario.shortestLease()
}

// shortestLease is the lease for an agent about which nothing is known.
func (s Scenario) shortestLease() uint8 {
	return min(s.Leases[0], s.Leases[1], cmp.Or(s.StoredLease, s.Leases[0]))
}

// counted is the lease that a leader counts with.
func (t *transition) counted(r, n uint8) uint8 {
	if t.Rules.Has(StoredLeaseCounts) {
		return max(cmp.Or(t.store.leases[nameOf(n)], t.Scenario.Leases[r]), t.replicas[r].links[n].told)
	}
	return t.Scenario.Leases[r]
}

// lapse is how long an agent must be unheard before its work is given up.
func (t *transition) lapse(r, n uint8) uint8 {
	if t.Rules.Has(LeaseMargin) {
		return t.counted(r, n) + margin
	}
	return t.counted(r, n)
}

// lapseOfAssignment is how long a process may continue by the lease that is stored with its assignment. That one is longer
// than the lease in Agent status if a leader repeated it before it knew which one is stored.
func (t *transition) lapseOfAssignment(r, n uint8) uint8 {
	if task := t.replicas[r].cache.task; task.owner == n+1 && t.Rules.Has(LeaseWithAssignment) {
		return task.lease + margin
	}
	return 0
}

// gateOf is how long a new leader waits for an agent that has not reported what it runs.
func (t *transition) gateOf(r, n uint8) uint8 {
	longest := t.Scenario.LongestGate
	switch {
	case longest > 0 && t.store.leases[nameOf(n)] == 0 && t.Rules.Has(MinuteForUnknownPods):
		return longest + margin // by the longest lease with which an assignment may be sent before it is stored
	case longest > 0:
		return min(t.lapse(r, n), longest+margin)
	}
	return t.lapse(r, n)
}

// storesFirst reports whether even a first assignment to an agent is stored before it is sent, because the gate of the next
// leader is shorter than the lease: it is not longer than the longest gate, nor than the stored lease.
func (t *transition) storesFirst(r, n uint8) bool {
	if t.replicas[r].links[n].told > t.store.leases[nameOf(n)] && t.Rules.Has(EarlyLeaseStoresFirst) {
		return true
	}
	return t.gateOf(r, n) < t.lapse(r, n) && t.Rules.Has(LongLeaseStoredFirst)
}

// storeLease writes the configured lease into Agent status: a longer one before it is sent, a shorter one after longer leases have run out.
func (t *transition) storeLease(r, n uint8) bool {
	l, stored, configured := &t.replicas[r], &t.store.leases[nameOf(n)], t.Scenario.Leases[r]
	if !t.mayAct(r) || !l.opened || !l.links[n].open || *stored == configured {
		return false
	}
	if configured < *stored && (l.longer > 0 || l.links[n].told > configured) && t.Rules.Has(LeaseLoweredLate) {
		return false
	}
	if configured > *stored && t.holdsUnstored(r, n) && t.Rules.Has(LongLeaseToldLate) {
		return false
	}
	*stored = configured
	return true
}

// holdsUnstored reports whether a process has an assignment that is not stored, although the gate will be shorter than its lease.
func (t *transition) holdsUnstored(r, n uint8) bool {
	memory, longest := t.replicas[r].memory, t.Scenario.LongestGate
	return longest > 0 && t.Scenario.Leases[r] > longest && memory.state == held && memory.owner == n && !memory.written
}
