package dispatch

// The lease of an agent is configured in the operator, so another leader may have another one. Agent status has the longest that is in force.

// told is the lease that a leader tells an agent: the configured one, but not a longer one than is stored.
func (t *transition) told(r, n uint8) uint8 {
	configured, stored := t.Scenario.Leases[r], t.store.leases[nameOf(n)]
	if configured <= stored || !t.Rules.Has(LeaseStoredFirst) {
		return configured
	}
	return stored
}

// counted is the lease that a leader counts with.
func (t *transition) counted(r, n uint8) uint8 {
	if t.Rules.Has(StoredLeaseCounts) {
		return t.store.leases[nameOf(n)]
	}
	return t.Scenario.Leases[r]
}

// lapse is how long an agent must not have been heard before its work is given up.
func (t *transition) lapse(r, n uint8) uint8 {
	if t.Rules.Has(LeaseMargin) {
		return t.counted(r, n) + margin
	}
	return t.counted(r, n)
}

// gateOf is how long a new leader waits for an agent that has not said what it runs.
func (t *transition) gateOf(r, n uint8) uint8 {
	if longest := t.Scenario.LongestGate; longest > 0 {
		return min(t.lapse(r, n), longest+margin)
	}
	return t.lapse(r, n)
}

// storesFirst reports whether even a first assignment to an agent is stored before it is sent, because the gate is shorter than the lease.
func (t *transition) storesFirst(r, n uint8) bool {
	return t.gateOf(r, n) < t.lapse(r, n) && t.Rules.Has(LongLeaseStoredFirst)
}

// storeLease writes the configured lease into Agent status: a longer one before it is told, a shorter one after longer leases have run out.
func (t *transition) storeLease(r, n uint8) bool {
	l, stored, configured := &t.replicas[r], &t.store.leases[nameOf(n)], t.Scenario.Leases[r]
	if !t.mayAct(r) || !l.opened || !l.links[n].open || *stored == configured {
		return false
	}
	if configured < *stored && l.longer > 0 && t.Rules.Has(LeaseLoweredLate) {
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
