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
func (w *cluster) auditCounters() {
	for _, task := range w.store.all() {
		status, history := task.Status, w.store.history(&task)
		sent, failed := w.journal.sentTo(string(task.UID)), w.journal.failures(string(task.UID))
		made := assignments(history, sent)
		w.auditUndelivered(&task, history)
		retried, ends := counted(&task, history)
		exact := status.Phase.Final() && len(w.leaders) == 1 && !stoppedByUser(history)
		switch {
		case retried > failed || ends > made:
			w.problem("%s counts more than happened: %d failed runs, %d assignments: %+v", task.Name, failed, made, status)
		case exact && status.Reassignments == 0 && retried != failed:
			w.problem("%s has %d failed runs and counts %d: %+v", task.Name, failed, retried, status)
		case exact && ends != int32(len(sent)) && !w.journal.longRun(string(task.UID)):
			w.problem("%s was assigned %d times and counts %d ends: %+v", task.Name, len(sent), ends, status)
		}
	}
}

// counted returns how many failed runs and how many ends of assignments the status of a task accounts for.
func counted(task *v1alpha1.Task, history []v1alpha1.Task) (retried, ends int32) {
	status := task.Status
	retried, ends = status.Retries, status.Retries+status.Reassignments+status.HandBacks+int32(len(undelivered(history)))
	switch {
	case decidedByFailure(task):
		return retried + 1, ends + 1
	case decidedOtherwise(task) && !succeededAfterLoss(history):
		return retried, ends + 1
	}
	return retried, ends
}

// uncounted are the reasons with which a task fails without an uncounted failed run.
var uncounted = []v1alpha1.Reason{
	v1alpha1.ReasonTooManyReassignments, v1alpha1.ReasonTooManyHandBacks, v1alpha1.ReasonTimedOut,
	v1alpha1.ReasonBadInput, v1alpha1.ReasonResultInvalid, v1alpha1.ReasonEpochInvalid,
}

// decidedByFailure reports whether the last failure of a task was not followed by a retry, and therefore is not counted as one.
func decidedByFailure(task *v1alpha1.Task) bool {
	status := task.Status
	return status.Phase == v1alpha1.TaskFailed && status.Attempt > 0 && !slices.Contains(uncounted, v1alpha1.Reason(status.Reason))
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
func (w *cluster) auditUndelivered(task *v1alpha1.Task, history []v1alpha1.Task) {
	if w.journal.ran(string(task.UID), undelivered(history)) {
		w.problem("%s has an attempt that ran and is stored as not delivered: %+v", task.Name, task.Status)
	}
}

// undelivered returns the epochs of assignments that are stored as not delivered.
func undelivered(history []v1alpha1.Task) map[int64]bool {
	epochs := map[int64]bool{}
	for n := range history {
		if status := &history[n].Status; status.Reason == string(v1alpha1.ReasonNotDelivered) {
			epochs[status.Epoch] = true
		}
	}
	return epochs
}

// ran reports whether an attempt of a task with one of the epochs has run.
func (j *journal) ran(uid string, epochs map[int64]bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.runs, func(run *stint) bool { return run.uid == uid && epochs[run.epoch] })
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
	for _, one := range s.log {
		if one.after != nil && one.after.UID == task.UID {
			versions = append(versions, *one.after)
		}
	}
	return versions
}

// assign records that an assignment was sent, whether or not it arrives.
func (j *journal) assign(order *linkv1.Assign) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sent = append(j.sent, order.GetAttempt())
	j.payloads = append(j.payloads, string(order.GetPayload()))
}

// sentTo returns the epochs of a task's assignments that were sent.
func (j *journal) sentTo(uid string) map[int64]bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	epochs := map[int64]bool{}
	for _, attempt := range j.sent {
		if attempt.GetTaskUid() == uid {
			epochs[attempt.GetEpoch()] = true
		}
	}
	return epochs
}

// assignments counts those that were sent or stored.
func assignments(history []v1alpha1.Task, sent map[int64]bool) int32 {
	all := maps.Clone(sent)
	for n := range history {
		for _, given := range history[n].Status.AssignedAgents {
			all[given.Epoch] = true
		}
	}
	return int32(len(all))
}

// failures counts the runs of a task that failed, or asked for a retry.
func (j *journal) failures(uid string) int32 {
	j.mu.Lock()
	defer j.mu.Unlock()
	count := int32(0)
	for _, run := range j.runs {
		if run.uid == uid && (run.outcome == linkv1.Outcome_OUTCOME_FAILED.String() || run.outcome == linkv1.Outcome_OUTCOME_RETRY.String()) {
			count++
		}
	}
	return count
}

// longRun reports whether an attempt ran long enough to reset the count of hand-backs.
func (j *journal) longRun(uid string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.runs, func(run *stint) bool { return run.uid == uid && run.end.Sub(run.start) >= steadyRun })
}
