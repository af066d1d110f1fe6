package dispatch

import "github.com/swarm-io/swarm-operator/test/model/explore"

// maxRetries of the task: one more failure is final.
const maxRetries = 2

// apiServer has what happens to the write of a replica, and how its caches follow.
func (t *transition) apiServer(r uint8) {
	t.Step(landWrite, r, 0, func() bool { return t.land(r, true) })
	lose := explore.Step{Action: loseAnswer, Subject: r}
	t.Fault(&t.left.LostAnswers, lose, func() bool { return t.replicas[r].leading && t.land(r, false) })
	t.Step(dropWrite, r, 0, func() bool { return t.writeIsLost(r) })
	t.Step(syncTask, r, 0, func() bool { return t.readsCaches(r) && replace(&t.replicas[r].cache.task, t.store.task) })
	t.Step(syncPods, r, 0, func() bool {
		if t.Rules.Has(CacheBarrier) {
			return false
		}
		pods := replace(&t.replicas[r].cache.pods, t.store.pods)
		return replace(&t.replicas[r].cache.linked, t.store.linked) || pods
	})
}

// readsCaches reports whether a replica reads its caches as they are, without bringing them up to date first.
func (t *transition) readsCaches(r uint8) bool {
	return t.replicas[r].opened || !t.Rules.Has(CacheBarrier)
}

func replace[T comparable](old *T, current T) bool {
	changed := *old != current
	*old = current
	return changed
}

// cachesFollow brings caches up to date at once where they do not lag.
func (t *transition) cachesFollow() {
	if t.Scenario.CachesLag {
		return
	}
	for n := range t.replicas {
		t.replicas[n].cache = cache{task: t.store.task, pods: t.store.pods, linked: t.store.linked}
	}
}

// storeAssignment stores the first assignment, which was already sent.
func (t *transition) storeAssignment(r uint8) bool {
	memory := &t.replicas[r].memory
	return t.mayAct(r) && memory.state == held && !memory.written && t.writeAssignment(r)
}

func (t *transition) writeAssignment(r uint8) bool {
	memory, task := t.replicas[r].memory, t.replicas[r].cache.task
	task.epoch, task.owner, task.lease = memory.epoch, memory.owner+1, t.counted(r, memory.owner)
	return t.request(r, write{task: task})
}

// storeEnd stores how an attempt ended. If the object already records that, because the answer to an earlier write was lost,
// nothing is counted again.
func (t *transition) storeEnd(r uint8) bool {
	memory, task := t.replicas[r].memory, t.replicas[r].cache.task
	if !t.mayAct(r) || !t.mayStoreEnd(r) {
		return false
	}
	known := task.recorded(memory.epoch) && (memory.outcome != succeeded && !task.cancel || task.final())
	if known && t.Rules.Has(EndCountedOnce) {
		t.settle(r, task)
		return true
	}
	w := write{task: task.after(memory), records: memory.epoch, outcome: memory.outcome}
	if w.task.phase == cancelled {
		w.outcome = 0 // it is not counted
	}
	return t.request(r, w)
}

// storeCancel ends a cancelled task that no agent is known to have. If no attempt is stored, this waits for the gate: a
// former leader may have assigned the first one without storing it.
func (t *transition) storeCancel(r uint8) bool {
	l, task := &t.replicas[r], t.replicas[r].cache.task
	if !t.mayAct(r) || l.memory.state != waiting || !task.cancel || task.final() {
		return false
	}
	if task.epoch == 0 && !t.gateIsOpen(r) && t.Rules.Has(FinalAfterGate) {
		return false
	}
	task.phase, task.owner, task.lease = cancelled, 0, 0
	return t.request(r, write{task: task})
}

// mayStoreEnd reports whether an attempt has ended and its end can be stored now. An attempt that is not stored waits for the
// gate: a newer one may have been assigned, which is not stored either.
func (t *transition) mayStoreEnd(r uint8) bool {
	l := &t.replicas[r]
	if l.memory.state != ended || l.write.active {
		return false
	}
	return l.memory.epoch <= l.cache.task.epoch || t.gateIsOpen(r) || !t.Rules.Has(UnstoredResultAfterGate)
}

// after returns the task after the end of an attempt.
func (t taskObject) after(attempt taskState) taskObject {
	t.epoch, t.owner, t.lease = max(t.epoch, attempt.epoch), 0, 0
	switch {
	case attempt.outcome == succeeded:
		t.phase = completed
	case t.cancel:
		t.phase = cancelled
	case attempt.outcome == failed:
		t.retries++
		if t.retries > maxRetries {
			t.phase = exhausted
		}
	case attempt.outcome == lost:
		t.reassignments++
	}
	return t
}

// request sends a write that is based on the cache.
func (t *transition) request(r uint8, w write) bool {
	l := &t.replicas[r]
	if l.write.active {
		return false
	}
	w.active, w.term, w.base = true, l.term, l.cache.task.version
	l.write = w
	if !t.Scenario.WritesLag {
		return t.land(r, true)
	}
	return true
}

// land delivers a write to the store: it is refused if the object has changed since. A write of a former leader may land, too.
func (t *transition) land(r uint8, answered bool) bool {
	l := &t.replicas[r]
	w := l.write
	if !w.active {
		return false
	}
	l.write = write{}
	inTerm := l.leading && l.term == w.term
	before := t.store.task
	if w.base != before.version && t.Rules.Has(ResourceVersion) || before.final() {
		t.conflict(r, inTerm)
		return true
	}
	w.task.version, w.task.cancel = before.version+1, before.cancel
	t.store.task = w.task
	t.record(w, inTerm && t.mayAct(r))
	t.checkStored(before)
	t.cachesFollow()
	if answered && inTerm {
		t.settle(r, w.task)
	}
	return true
}

// record adds to the journal what a write has stored.
func (t *transition) record(w write, inTime bool) {
	switch w.outcome {
	case failed:
		t.journal.failures |= epochBit(w.records)
	case lost:
		t.journal.losses |= epochBit(w.records)
	}
	t.journal.final = t.journal.final || w.task.final()
	t.journal.late = t.journal.late || !inTime
}

// conflict leaves everything as it was. A reserved assignment was not sent, so the task waits again.
func (t *transition) conflict(r uint8, inTerm bool) {
	if memory := &t.replicas[r].memory; inTerm && memory.state == reserved {
		*memory = taskState{state: waiting, epoch: max(memory.epoch, t.store.task.epoch)}
	}
}

// writeIsLost drops a request that never arrives, because its sender has ended.
func (t *transition) writeIsLost(r uint8) bool {
	l := &t.replicas[r]
	if !l.write.active || l.leading && l.term == l.write.term {
		return false
	}
	l.write = write{}
	return true
}

// settle is called when a leader knows that its version of the object is stored.
func (t *transition) settle(r uint8, task taskObject) {
	memory := &t.replicas[r].memory
	switch {
	case memory.state == held && memory.epoch == task.epoch && task.owner != 0:
		memory.written = true
	case memory.state == reserved && memory.epoch == task.epoch:
		memory.written = true
		t.deliver(r)
	case memory.state == ended && task.recorded(memory.epoch):
		t.attemptIsOver(r, task)
	case memory.state == waiting && task.final():
		t.taskIsOver(r, task)
	}
}

// attemptIsOver lets the agent forget its result, and the leader what it no longer needs.
func (t *transition) attemptIsOver(r uint8, task taskObject) {
	memory := &t.replicas[r].memory
	over := *memory
	*memory = taskState{state: waiting, epoch: task.epoch}
	if task.final() {
		t.taskIsOver(r, task)
	}
	if over.outcome != lost && t.Rules.Has(AcknowledgeAfterStore) {
		t.acknowledge(r, over.owner, over.epoch)
	}
}

// taskIsOver is called when a leader knows that a final phase is stored.
func (t *transition) taskIsOver(r uint8, task taskObject) {
	memory := &t.replicas[r].memory
	*memory = taskState{state: finished, epoch: task.epoch}
	if !t.Rules.Has(FinishedRemembered) {
		*memory = taskState{}
	}
}
