package handover

// apiServerSteps has what happens to writes in transit.
func (t *transition) apiServerSteps() {
	t.Step(applyWrite, t.leader, 0, func() bool { return t.deliverWrite(&t.write, true) })
	t.Step(applyLateWrite, 1-t.leader, 0, func() bool { return t.deliverWrite(&t.lateWrite, false) })
	t.Step(loseLateWrite, 1-t.leader, 0, func() bool { return change(&t.lateWrite, write{}) })
}

func (t *transition) deliverWrite(w *write, ours bool) bool {
	arrived := *w
	*w = write{}
	if arrived.active {
		t.applyWrite(arrived, ours)
	}
	return arrived.active
}

// publish sends the ConfigMap with the worker's list, based on the version that the leader knows.
func (t *transition) publish(worker uint8, r record, records [workers]record) bool {
	object := t.Scenario.objectOf(worker)
	records[worker] = r
	base := t.leaderCache().config.versions[object]
	t.write = write{active: true, create: base == 0, object: object, base: base, records: records}
	return true
}

// applyWrite delivers a write to the store. An update is refused if the object has changed since, a create if it exists.
func (t *transition) applyWrite(w write, fromLeader bool) {
	current := t.config.versions[w.object]
	if w.create && current != 0 || !w.create && w.base != current && t.Rules.Has(UpdateNamesVersion) {
		return
	}
	t.config.versions[w.object] = max(current, w.base) + 1
	for worker := range uint8(workers) {
		if t.Scenario.objectOf(worker) == w.object {
			t.store(worker, w.records[worker])
		}
	}
	if fromLeader {
		t.leaderCache().config.versions[w.object] = t.config.versions[w.object]
		t.cacheOwnWrite(w.object)
	}
	t.syncCaches()
}

func (t *transition) store(worker uint8, r record) {
	before := t.config.records[worker].list
	if r.list.version < before.version {
		t.violation = VersionDecreases
	}
	if r.list != before {
		t.previous[worker] = before
	}
	t.config.records[worker] = r
}

// cacheOwnWrite adds what the leader has just written to its cache.
func (t *transition) cacheOwnWrite(object uint8) {
	for worker := range uint8(workers) {
		if t.Scenario.objectOf(worker) == object {
			t.leaderCache().config.records[worker] = t.config.records[worker]
		}
	}
}

func (t *transition) syncCache(r uint8) bool {
	return change(&t.caches[r], cache{config: t.config, pods: t.existing()})
}

// syncCaches brings caches up to date at once where they do not lag.
func (t *transition) syncCaches() {
	if !t.Scenario.CachesLag {
		t.syncCache(0)
		t.syncCache(1)
	}
}
