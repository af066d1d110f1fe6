package task

import (
	"maps"
	"slices"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// auditCounters compares the counters of every task with the journal. It is part of every simulation.
//
// Every assignment that was sent ends once: it is counted as a retry, a reassignment or a hand-back, it decides the task, or it was not
// delivered, which is not counted. A stored one may have been sent, as far as the next leader knows. Nothing is counted that did not
// happen, whatever goes wrong. While a single leader sees everything and the user stops nothing, everything that happens is counted.
func (sim *simulation) auditCounters() {
	for _, task := range sim.store.all() {
		status, history := task.Status, sim.store.history(&task)
		sent, failed := sim.attempts.sentEpochs(string(task.UID)), sim.attempts.countFailures(string(task.UID))
		assigned := countAssignments(history, sent)
		sim.auditUndelivered(&task, history)
		retried, ends := countedEnds(&task, history)
		exact := status.Phase.Final() && len(sim.leaders) == 1 && !stoppedByUser(history)
		switch {
		case retried > failed || ends > assigned:
			sim.problem("%s counts more than happened: %d failed runs, %d assignments: %+v", task.Name, failed, assigned, status)
		case exact && status.Reassignments == 0 && retried != failed:
			sim.problem("%s has %d failed runs and counts %d: %+v", task.Name, failed, retried, status)
		case exact && ends != int32(len(sent)) && !sim.attempts.hasLongRun(string(task.UID)):
			sim.problem("%s was assigned %d times and counts %d ends: %+v", task.Name, len(sent), ends, status)
		}
	}
}

// countedEnds returns how many failed runs and how many ends of assignments the status of a task accounts for.
func countedEnds(task *v1alpha1.Task, history []v1alpha1.Task) (retried, ends int32) {
	status := task.Status
	retried, ends = status.Retries, status.Retries+status.Reassignments+status.HandBacks+int32(len(undeliveredEpochs(history)))
	switch {
	case decidedByFailure(task):
		return retried + 1, ends + 1
	case decidedOtherwise(task) && !succeededAfterLoss(history):
		return retried, ends + 1
	}
	return retried, ends
}

// reasonsWithoutFailedRun are the reasons with which a task fails without an uncounted failed run.
var reasonsWithoutFailedRun = []v1alpha1.Reason{
	v1alpha1.ReasonTooManyReassignments, v1alpha1.ReasonTooManyHandBacks, v1alpha1.ReasonTimedOut,
	v1alpha1.ReasonBadInput, v1alpha1.ReasonResultInvalid, v1alpha1.ReasonEpochInvalid,
}

// decidedByFailure reports whether the last failure of a task was not followed by a retry, and therefore is not counted as one.
func decidedByFailure(task *v1alpha1.Task) bool {
	status := task.Status
	return status.Phase == v1alpha1.TaskFailed && status.Attempt > 0 &&
		!slices.Contains(reasonsWithoutFailedRun, v1alpha1.Reason(status.Reason))
}

// decidedOtherwise reports whether an attempt that is counted nowhere decided the task.
func decidedOtherwise(task *v1alpha1.Task) bool {
	status := task.Status
	decisive := []v1alpha1.Reason{v1alpha1.ReasonCompleted, v1alpha1.ReasonBadInput, v1alpha1.ReasonResultInvalid}
	return status.Phase.Final() && slices.Contains(decisive, v1alpha1.Reason(status.Reason)) && status.Attempt > 0
}

// succeededAfterLoss reports whether an attempt was counted as lost and has succeeded after all.
func succeededAfterLoss(history []v1alpha1.Task) bool {
	last := history[len(history)-1].Status
	for n := range history {
		status := &history[n].Status
		if last.Phase == v1alpha1.TaskCompleted && status.Epoch == last.Epoch && status.Reason == string(v1alpha1.ReasonLinkLost) {
			return true
		}
	}
	return false
}

// auditUndelivered checks that nothing which ran is stored as not delivered.
func (sim *simulation) auditUndelivered(task *v1alpha1.Task, history []v1alpha1.Task) {
	if sim.attempts.hasRun(string(task.UID), undeliveredEpochs(history)) {
		sim.problem("%s has an attempt that ran and is stored as not delivered: %+v", task.Name, task.Status)
	}
}

// undeliveredEpochs returns the epochs of assignments that are stored as not delivered.
func undeliveredEpochs(history []v1alpha1.Task) map[int64]bool {
	epochs := map[int64]bool{}
	for n := range history {
		if status := &history[n].Status; status.Reason == string(v1alpha1.ReasonNotDelivered) {
			epochs[status.Epoch] = true
		}
	}
	return epochs
}

// hasRun reports whether an attempt of a task with one of the epochs has run.
func (l *attemptLog) hasRun(uid string, epochs map[int64]bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.runs, func(run *attemptRecord) bool { return run.uid == uid && epochs[run.epoch] })
}

// stoppedByUser reports whether a user, or a time limit, may have stopped an attempt: such an end is not counted.
func stoppedByUser(history []v1alpha1.Task) bool {
	for n := range history {
		spec := &history[n].Spec
		if spec.Desired != "" && spec.Desired != v1alpha1.TaskRun || spec.Timeouts != nil {
			return true
		}
	}
	return false
}

// history lists every stored version of a task.
func (s *store) history(task *v1alpha1.Task) []v1alpha1.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	var versions []v1alpha1.Task
	for _, change := range s.log {
		if change.after != nil && change.after.UID == task.UID {
			versions = append(versions, *change.after)
		}
	}
	return versions
}

// recordAssign records that an assignment was sent, whether or not it arrives.
func (l *attemptLog) recordAssign(order *linkv1.Assign) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sentAttempts = append(l.sentAttempts, order.GetAttempt())
	l.payloads = append(l.payloads, string(order.GetPayload()))
}

// sentEpochs returns the epochs of a task's assignments that were sent.
func (l *attemptLog) sentEpochs(uid string) map[int64]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	epochs := map[int64]bool{}
	for _, attempt := range l.sentAttempts {
		if attempt.GetTaskUid() == uid {
			epochs[attempt.GetEpoch()] = true
		}
	}
	return epochs
}

// countAssignments counts those that were sent or stored.
func countAssignments(history []v1alpha1.Task, sent map[int64]bool) int32 {
	all := maps.Clone(sent)
	for n := range history {
		for _, assigned := range history[n].Status.AssignedAgents {
			all[assigned.Epoch] = true
		}
	}
	return int32(len(all))
}

// countFailures counts the runs of a task that failed, or asked for a retry.
func (l *attemptLog) countFailures(uid string) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := int32(0)
	for _, run := range l.runs {
		if run.uid == uid && (run.outcome == linkv1.Outcome_OUTCOME_FAILED.String() || run.outcome == linkv1.Outcome_OUTCOME_RETRY.String()) {
			count++
		}
	}
	return count
}

// hasLongRun reports whether an attempt ran long enough to reset the count of hand-backs.
func (l *attemptLog) hasLongRun(uid string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.runs, func(run *attemptRecord) bool {
		return run.uid == uid && run.end.Sub(run.start) >= handBackResetPeriod
	})
}
