package main

import (
	"fmt"
	"slices"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/test/invariant"
)

// versionOf names what is stored. It is the same for all witnesses.
func versionOf(event Event) string { return fmt.Sprintf("%s %d", event.UID, event.Stored.Version) }

func (j *judge) store(event Event) {
	task := j.task(event)
	if event.Epoch > 0 {
		task.epochs[event.Epoch] = true
	}
	if event.Stored.Version <= task.version {
		return // a second witness
	}
	after := invariant.Stored[int64]{Epoch: event.Epoch, Phase: event.Stored.Phase, Assigned: event.Stored.Assigned}
	j.violated(event, invariant.Change(task.stored, after)...)
	if !j.requests[event.Task].explain(event) {
		j.violated(event, invariant.StoppedUnasked)
	}
	if after.Final() && !task.final {
		j.finish(task, event)
	}
	task.version, task.stored = event.Stored.Version, after
	if after.Assigned {
		task.history.Give(after.Epoch)
	}
}

// finish compares the end of a task with its attempts.
func (j *judge) finish(task *taskRecord, event Event) {
	task.final, task.finalAt, task.writer = true, event.At, j.terms[j.writers[versionOf(event)]]
	if !task.counted(event, j.requests[event.Task].suspended()) {
		j.violated(event, invariant.CounterWrong)
	}
	if j.runsOn(task) {
		j.violated(event, invariant.FinalWhileRunning)
	}
	epoch, known := task.reported[event.Stored.Result]
	if event.Stored.Phase == string(v1alpha1.TaskCompleted) && (!known || epoch != event.Epoch) {
		j.violated(event, invariant.ResultUnknown)
	}
	phase := event.Stored.Phase
	if event.Stored.Reason != "" {
		phase += ":" + event.Stored.Reason
	}
	j.Phases[phase]++
}

// runsOn reports whether an attempt of a task runs that has just become final.
func (j *judge) runsOn(task *taskRecord) bool {
	for _, run := range task.running {
		ofNextLeader := task.writer > 0 && task.isOfNextLeader(run.Epoch)
		if j.frozen[run.Process] == 0 && !ofNextLeader {
			return true
		}
	}
	return false
}

// countedReasons are why a task fails although its last attempt is counted.
var countedReasons = []v1alpha1.Reason{v1alpha1.ReasonTooManyReassignments, v1alpha1.ReasonTooManyHandBacks}

// counted reports whether the counters of a task that is final now agree with its attempts. Each attempt is counted once: as a retry, a
// reassignment or a hand-back, unless it decided the task or was stopped by a suspension. Nothing may be counted that did not happen.
// Nothing may be missing either if one leader gave out all attempts and stored the end; the next one does not know of an attempt that was
// not stored and whose process has ended.
func (t *taskRecord) counted(final Event, suspensions int) bool {
	held := final.Stored
	ends := int(held.Retries + held.Reassignments + held.HandBacks)
	if !slices.Contains(countedReasons, v1alpha1.Reason(held.Reason)) && !t.stored.Records(final.Epoch) {
		ends++ // the attempt that decided it; one that had been counted as lost does not count again
	}
	complete := ends+suspensions >= t.attempts || !t.oneLeader()
	return held.Retries <= t.failures && ends <= len(t.epochs) && complete
}

// oneLeader reports whether all attempts were given out, and the end was stored, in one term.
func (t *taskRecord) oneLeader() bool {
	terms := map[int64]bool{}
	for epoch := range t.epochs {
		terms[epoch>>32] = true
	}
	return len(terms) == 1 && (t.writer == 0 || terms[t.writer])
}
