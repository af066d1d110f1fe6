package main

import (
	"fmt"
	"slices"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/test/invariant"
)

// versionOf names what is stored. It is the same for all witnesses.
func versionOf(event Event) string { return fmt.Sprintf("%s %d", event.UID, event.Stored.Version) }

func (j *checker) store(event Event) {
	task := j.task(event)
	if event.Epoch > 0 {
		task.epochs[event.Epoch] = true
	}
	if event.Stored.Version <= task.version {
		return // a second witness
	}
	after := invariant.StoredTask[int64]{Epoch: event.Epoch, Phase: event.Stored.Phase, Assigned: event.Stored.Assigned}
	j.addViolations(event, invariant.CheckChange(task.stored, after)...)
	if !j.requests[event.Task].explain(event) {
		j.addViolations(event, invariant.StoppedWithoutRequest)
	}
	if after.IsFinal() && !task.final {
		j.finish(task, event)
	}
	task.version, task.stored = event.Stored.Version, after
	if after.Assigned {
		task.history.RecordAssignment(after.Epoch)
	}
}

// finish compares the end of a task with its attempts.
func (j *checker) finish(task *taskHistory, event Event) {
	task.final, task.finalAt, task.writer = true, event.At, j.terms[j.storedBy[versionOf(event)]]
	if !task.countersAgree(event, j.requests[event.Task].maxSuspendedAttempts()) {
		j.addViolations(event, invariant.CounterWrong)
	}
	if j.stillRuns(task) {
		j.addViolations(event, invariant.FinalWhileRunning)
	}
	epoch, known := task.succeededRuns[event.Stored.Result]
	if event.Stored.Phase == string(v1alpha1.TaskCompleted) && (!known || epoch != event.Epoch) {
		j.addViolations(event, invariant.ResultUnknown)
	}
	phase := event.Stored.Phase
	if event.Stored.Reason != "" {
		phase += ":" + event.Stored.Reason
	}
	j.Phases[phase]++
}

// stillRuns reports whether an attempt of a task runs that has just become final.
func (j *checker) stillRuns(task *taskHistory) bool {
	for _, run := range task.running {
		ofNextLeader := task.writer > 0 && task.isFromNextLeader(run.Epoch)
		if j.suspended[run.Process] == 0 && !ofNextLeader {
			return true
		}
	}
	return false
}

// countedFailureReasons are why a task fails although its last attempt is counted.
var countedFailureReasons = []v1alpha1.Reason{v1alpha1.ReasonTooManyReassignments, v1alpha1.ReasonTooManyHandBacks}

// countersAgree reports whether the counters of a task that is final now agree with its attempts. Each attempt is counted once: as a retry,
// a reassignment or a hand-back, unless it decided the task or was stopped by a suspension. Nothing may be counted that did not happen.
// Nothing may be missing either if one leader gave out all attempts and stored the end; the next one does not know of an attempt that was
// not stored and whose process has ended.
func (t *taskHistory) countersAgree(final Event, suspensions int) bool {
	finalTask := final.Stored
	ends := int(finalTask.Retries + finalTask.Reassignments + finalTask.HandBacks)
	if !slices.Contains(countedFailureReasons, v1alpha1.Reason(finalTask.Reason)) && !t.stored.RecordsEnd(final.Epoch) {
		ends++ // the attempt that decided it; one that had been counted as lost does not count again
	}
	complete := ends+suspensions >= t.attempts || !t.inOneTerm()
	return finalTask.Retries <= t.failures && ends <= len(t.epochs) && complete
}

// inOneTerm reports whether all attempts were given out, and the end was stored, in one term.
func (t *taskHistory) inOneTerm() bool {
	terms := map[int64]bool{}
	for epoch := range t.epochs {
		terms[epoch>>32] = true
	}
	return len(terms) == 1 && (t.writer == 0 || terms[t.writer])
}
