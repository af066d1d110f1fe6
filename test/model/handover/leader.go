package handover

// replica has what the leader does: begin its term, and hand the job over in two steps.
func (t *transition) replica() {
	t.Step(beginTerm, t.leader, 0, t.beginTerm)
	t.Step(revoke, t.leader, 0, t.revokeJob)
	t.Step(createConfigMap, t.leader, 0, t.createConfigMap)
	t.Step(grant, t.leader, 0, t.grantJob)
}

// leaderCache is what the leader plans from. It includes its own writes.
func (t *transition) leaderCache() *cache { return &t.caches[t.leader] }

// beginTerm brings the caches up to date and stamps the term into every ConfigMap, so that a late update of the former leader
// conflicts.
func (t *transition) beginTerm() bool {
	if t.termBegun {
		return false
	}
	if t.Rules.Has(CurrentCaches) {
		*t.leaderCache() = cache{config: t.config, pods: t.existing()}
	}
	if t.Rules.Has(TermStamped) && !t.stampTerm() {
		return false
	}
	t.termBegun = true
	return true
}

// stampTerm writes to every ConfigMap that the leader knows. It has to know the newest version of each.
func (t *transition) stampTerm() bool {
	cached := &t.leaderCache().config
	for object := range cached.versions {
		if cached.versions[object] != 0 && cached.versions[object] != t.config.versions[object] {
			return false
		}
	}
	for object := range cached.versions {
		if cached.versions[object] != 0 {
			t.config.versions[object]++
			cached.versions[object]++
		}
	}
	return true
}

func (t *transition) mayPlan() bool { return t.termBegun && !t.write.active }

// revokeJob publishes lists without the job to workers that should lose it, one at a time. They may hold it until they are heard.
func (t *transition) revokeJob() bool {
	cached := &t.leaderCache().config
	for worker := range uint8(workers) {
		lost := cached.records[worker]
		if !t.mayPlan() || worker == cached.target || !lost.list.hasJob {
			continue
		}
		lost.list = list{version: lost.list.version + 1}
		lost.mayHold = t.Rules.Has(LedgerStoredWithLists)
		t.mayHoldInMemory |= bit(worker)
		return t.publish(worker, lost, cached.records)
	}
	return false
}

// createConfigMap creates an empty ConfigMap for the worker that should get the job, if it has none. A create that arrives late
// grants nothing.
func (t *transition) createConfigMap() bool {
	cached := &t.leaderCache().config
	object := t.Scenario.objectOf(cached.target)
	if !t.mayPlan() || cached.versions[object] != 0 || !t.Rules.Has(CreatedEmpty) {
		return false
	}
	t.write = write{active: true, create: true, object: object, records: cached.records}
	return true
}

// grantJob publishes the list with the job if no other worker may hold it.
func (t *transition) grantJob() bool {
	cached := &t.leaderCache().config
	object := t.Scenario.objectOf(cached.target)
	gaining, records := cached.records[cached.target], cached.records
	if !t.mayPlan() || gaining.list.hasJob || cached.versions[object] == 0 && t.Rules.Has(CreatedEmpty) {
		return false
	}
	for worker := range uint8(workers) {
		if worker == cached.target {
			continue
		}
		if !t.isFree(worker, records[worker]) {
			return false
		}
		if t.Scenario.objectOf(worker) == object {
			records[worker] = releasedRecord(records[worker])
		}
	}
	gaining.list = list{version: gaining.list.version + 1, hasJob: true}
	gaining.mayHold = true
	return t.publish(cached.target, gaining, records)
}

// releasedRecord returns the record of a worker that holds nothing. A list that still has the job is replaced.
func releasedRecord(r record) record {
	r.mayHold = false
	if r.list.hasJob {
		r.list = list{version: r.list.version + 1}
	}
	return r
}

// isFree reports whether a worker can no longer hold the job: it never could, has acknowledged a list without it, or has no pod.
// Absence counts only after the list without the job was published: a pod that is admitted later begins with that list.
func (t *transition) isFree(worker uint8, r record) bool {
	mayHold := r.mayHold
	if !t.Rules.Has(LedgerStoredWithLists) {
		mayHold = t.mayHoldInMemory&bit(worker) != 0
	}
	switch {
	case !t.Rules.Has(RevokeBeforeGrant):
		return true
	case r.list.hasJob:
		return !t.Rules.Has(AbsenceReadAfterRevoke) && t.isGone(worker, r.list.version)
	}
	return !mayHold || t.hasAcknowledged(worker, r.list.version) || t.isGone(worker, r.list.version)
}

// hasAcknowledged asks the pod of a worker which list it has loaded.
func (t *transition) hasAcknowledged(worker, version uint8) bool {
	for n := range uint8(pods) {
		p := &t.pods[n]
		if !p.exists || t.Scenario.workerOf(n) != worker {
			continue
		}
		if p.loadedVersion >= version || !t.Rules.Has(AcknowledgedLaterList) && p.loadedVersion > 0 ||
			!t.Rules.Has(RestartReleasesNothing) && p.restarted {
			return true
		}
	}
	return false
}

// isGone reports whether no pod of the worker's name exists, whatever its labels, owner and phase. It reads from the API
// server, not from a cache. The answer counts only if no create that was admitted before the worker's list was published may
// still store one.
func (t *transition) isGone(worker, version uint8) bool {
	if t.isArriving(worker, version) {
		return false
	}
	existing := t.existing()
	if !t.Rules.Has(GonePastCache) {
		existing = t.leaderCache().pods
	}
	for n := range uint8(pods) {
		p := &t.pods[n]
		hidden := !t.Rules.Has(GoneByName) && !p.selected || !t.Rules.Has(PhaseProvesNothing) && p.failed
		if t.Scenario.workerOf(n) == worker && existing&bit(n) != 0 && !hidden {
			return false
		}
	}
	return true
}

// isArriving reports whether a create that was admitted before a list was published may still store a pod of the worker's name.
func (t *transition) isArriving(worker, version uint8) bool {
	return t.Rules.Has(CreatesAwaited) && t.create.active && t.Scenario.workerOf(2) == worker && t.create.publishedVersion < version
}

func (t *transition) existing() uint8 {
	existing := uint8(0)
	for n := range uint8(pods) {
		if t.pods[n].exists {
			existing |= bit(n)
		}
	}
	return existing
}
