package handover

// apiServer has what happens to writes in transit.
func (t *transition) apiServer() {
	t.Step(landWrite, t.leader, 0, func() bool { return t.arrives(&t.write, true) })
	t.Step(landLate, 1-t.leader, 0, func() bool { return t.arrives(&t.late, false) })
	t.Step(loseLate, 1-t.leader, 0, func() bool { return change(&t.late, write{}) })
}

func (t *transition) arrives(w *write, ours bool) bool {
	arrived := *w
	*w = write{}
	if arrived.active {
		t.lands(arrived, ours)
	}
	return arrived.active
}

// publish sends the ConfigMap with the worker's list, based on the version that the leader knows.
func (t *transition) publish(worker uint8, r record, records [workers]record) bool {
	object := t.Scenario.objectOf(worker)
	records[worker] = r
	base := t.cached().config.versions[object]
	t.write = write{active: true, create: base == 0, object: object, base: base, records: records}
	return true
}

// lands delivers a write to the store. An update is refused if the object has changed since, a create if it exists.
func (t *transition) lands(w write, ours bool) {
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
	if ours {
		t.cached().config.versions[w.object] = t.config.versions[w.object]
		t.knows(w.object)
	}
	t.cachesFollow()
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

// knows adds what the leader has just written to its cache.
func (t *transition) knows(object uint8) {
	for worker := range uint8(workers) {
		if t.Scenario.objectOf(worker) == object {
			t.cached().config.records[worker] = t.config.records[worker]
		}
	}
}

func (t *transition) syncs(r uint8) bool {
	return change(&t.caches[r], cache{config: t.config, pods: t.existing()})
}

// cachesFollow brings caches up to date at once where they do not lag.
func (t *transition) cachesFollow() {
	if !t.Scenario.CachesLag {
		t.syncs(0)
		t.syncs(1)
	}
}
