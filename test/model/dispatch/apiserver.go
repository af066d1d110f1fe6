package dispatch

import "github.com/swarm-io/swarm-operator/test/model/explore"

// maxRetries of the task: one more failure is final.
const maxRetries = 2

// apiServerSteps has what happens to the write of a replica, and how its caches follow.
func (t *transition) apiServerSteps(r uint8) {
	t.Step(applyWrite, r, 0, func() bool { return t.applyWrite(r, true) })
	lose := explore.Step{Action: loseResponse, Subject: r}
	t.Fault(&t.remainingFaults.LostAnswers, lose, func() bool { return t.replicas[r].leading && t.applyWrite(r, false) })
	t.Step(dropWrite, r, 0, func() bool { return t.dropWrite(r) })
	t.Step(syncTask, r, 0, func() bool { return t.readsStaleCaches(r) && setIfChanged(&t.replicas[r].cache.task, t.store.task) })
	t.Step(syncPods, r, 0, func() bool {
		if t.Rules.Has(CacheBarrier) {
			return false
		}
		pods := setIfChanged(&t.replicas[r].cache.pods, t.store.pods)
		return setIfChanged(&t.replicas[r].cache.linked, t.store.linked) || pods
	})
}

// readsStaleCaches reports whether a replica reads its caches as they are, without bringing them up to date first.
func (t *transition) readsStaleCaches(r uint8) bool {
	return t.replicas[r].termOpened || !t.Rules.Has(CacheBarrier)
}

func setIfChanged[T comparable](old *T, current T) bool {
	changed := *old != current
	*old = current
	return changed
}

// syncCaches brings caches up to date at once where they do not lag.
func (t *transition) syncCaches() {
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
	return t.mayAct(r) && memory.state == assigned && !memory.written && t.writeAssignment(r)
}

func (t *transition) writeAssignment(r uint8) bool {
	memory, task := t.replicas[r].memory, t.replicas[r].cache.task
	task.epoch, task.owner, task.lease = memory.epoch, memory.owner+1, t.leaseToCount(r, memory.owner)
	return t.request(r, write{task: task})
}

// storeEnd stores how an attempt ended. If the object already records that, because the answer to an earlier write was lost,
// nothing is counted again.
func (t *transition) storeEnd(r uint8) bool {
	memory, task := t.replicas[r].memory, t.replicas[r].cache.task
	if !t.mayAct(r) || !t.mayStoreEnd(r) {
		return false
	}
	known := task.isRecorded(memory.epoch) && (memory.outcome != succeeded && !task.cancel || task.isFinal())
	if known && t.Rules.Has(EndCountedOnce) {
		t.confirmStored(r, task)
		return true
	}
	w := write{task: task.afterAttempt(memory), records: memory.epoch, outcome: memory.outcome}
	if w.task.phase == cancelled {
		w.outcome = 0 // it is not counted
	}
	return t.request(r, w)
}

// storeCancel ends a cancelled task that no agent is known to have. If no attempt is stored, this waits for the gate: a
// former leader may have assigned the first one without storing it.
func (t *transition) storeCancel(r uint8) bool {
	l, task := &t.replicas[r], t.replicas[r].cache.task
	if !t.mayAct(r) || l.memory.state != waiting || !task.cancel || task.isFinal() {
		return false
	}
	if task.epoch == 0 && !t.isGateOpen(r) && t.Rules.Has(FinalAfterGate) {
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
	return l.memory.epoch <= l.cache.task.epoch || t.isGateOpen(r) || !t.Rules.Has(UnstoredResultAfterGate)
}

// afterAttempt returns the task after the end of an attempt.
func (t taskObject) afterAttempt(attempt taskState) taskObject {
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
		return t.applyWrite(r, true)
	}
	return true
}

// applyWrite delivers a write to the store: it is refused if the object has changed since. A write of a former leader may land, too.
func (t *transition) applyWrite(r uint8, isAnswered bool) bool {
	l := &t.replicas[r]
	w := l.write
	if !w.active {
		return false
	}
	l.write = write{}
	inTerm := l.leading && l.term == w.term
	before := t.store.task
	if w.base != before.version && t.Rules.Has(ResourceVersion) || before.isFinal() {
		t.rejectWrite(r, inTerm)
		return true
	}
	w.task.version, w.task.cancel = before.version+1, before.cancel
	t.store.task = w.task
	t.record(w, inTerm && t.mayAct(r))
	t.checkStored(before)
	t.syncCaches()
	if isAnswered && inTerm {
		t.confirmStored(r, w.task)
	}
	return true
}

// record adds to the journal what a write has stored.
func (t *transition) record(w write, inTerm bool) {
	switch w.outcome {
	case failed:
		t.journal.failures |= epochBit(w.records)
	case lost:
		t.journal.losses |= epochBit(w.records)
	}
	t.journal.final = t.journal.final || w.task.isFinal()
	t.journal.lateWrite = t.journal.lateWrite || !inTerm
}

// rejectWrite leaves everything as it was. A reserved assignment was not sent, so the task waits again.
func (t *transition) rejectWrite(r uint8, inTerm bool) {
	if memory := &t.replicas[r].memory; inTerm && memory.state == reserved {
		*memory = taskState{state: waiting, epoch: max(memory.epoch, t.store.task.epoch)}
	}
}

// dropWrite drops a request that never arrives, because its sender has ended.
func (t *transition) dropWrite(r uint8) bool {
	l := &t.replicas[r]
	if !l.write.active || l.leading && l.term == l.write.term {
		return false
	}
	l.write = write{}
	return true
}

// confirmStored is called when a leader knows that its version of the object is stored.
func (t *transition) confirmStored(r uint8, task taskObject) {
	memory := &t.replicas[r].memory
	switch {
	case memory.state == assigned && memory.epoch == task.epoch && task.owner != 0:
		memory.written = true
	case memory.state == reserved && memory.epoch == task.epoch:
		memory.written = true
		t.deliver(r)
	case memory.state == ended && task.isRecorded(memory.epoch):
		t.forgetAttempt(r, task)
	case memory.state == waiting && task.isFinal():
		t.forgetTask(r, task)
	}
}

// forgetAttempt lets the agent forget its result, and the leader what it no longer needs.
func (t *transition) forgetAttempt(r uint8, task taskObject) {
	memory := &t.replicas[r].memory
	over := *memory
	*memory = taskState{state: waiting, epoch: task.epoch}
	if task.isFinal() {
		t.forgetTask(r, task)
	}
	if over.outcome != lost && t.Rules.Has(AcknowledgeAfterStore) {
		t.sendAcknowledge(r, over.owner, over.epoch)
	}
}

// forgetTask is called when a leader knows that a final phase is stored.
func (t *transition) forgetTask(r uint8, task taskObject) {
	memory := &t.replicas[r].memory
	*memory = taskState{state: finished, epoch: task.epoch}
	if !t.Rules.Has(FinishedRemembered) {
		*memory = taskState{}
	}
}
