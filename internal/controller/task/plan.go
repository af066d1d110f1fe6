package task

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
	"github.com/swarm-io/swarm-operator/kit"
)

const (
	// maxReassignments limits lost agents per task; beyond that the task itself is probably killing its agents.
	maxReassignments = 5
	// maxHandBacks limits consecutive hand-backs; beyond that no agent is able or willing to run the task.
	maxHandBacks = 20
	// handBackResetPeriod is the run time after which a hand-back does not indicate a problem.
	handBackResetPeriod = 10 * time.Minute
	// firstWriteDelay is the maximum delay of writing the first assignment, statusWriteInterval the interval between writes of progress.
	firstWriteDelay, statusWriteInterval = time.Second, 10 * time.Second
	// configMapRetryInterval is the delay before a missing ConfigMap is read again.
	configMapRetryInterval = 5 * time.Second
)

// A Plan is the status to write, and when to reconcile again.
type Plan struct {
	Status        v1alpha1.TaskStatus
	Event         string    // type of the event for the change, empty for none
	RequeueAt     time.Time // zero: only on an event
	RequeueReason string
}

// plan decides the next status of a task.
func plan(task *v1alpha1.Task, snapshot snapshot, now time.Time) Plan {
	p := &planner{task: task, snapshot: snapshot, now: now, Plan: Plan{Status: *task.Status.DeepCopy()}}
	p.requeueAtLimit(deadline(task))
	switch {
	case snapshot.view.End != nil:
		p.handleEnd(*snapshot.view.End)
	case snapshot.view.Assignment != nil:
		p.handleRunning(*snapshot.view.Assignment)
	case snapshot.failure != nil:
		p.fail(snapshot.failure.reason, snapshot.failure.message)
	case snapshot.stopRequest != nil:
		p.applyStop(*snapshot.stopRequest)
	default:
		p.handleWait(*snapshot.view.Wait)
	}
	return p.Plan
}

type planner struct {
	Plan
	task     *v1alpha1.Task
	snapshot snapshot
	now      time.Time
}

func (p *planner) requeueAt(at time.Time, why string) {
	if !at.IsZero() && (p.RequeueAt.IsZero() || at.Before(p.RequeueAt)) {
		p.RequeueAt, p.RequeueReason = at, why
	}
}

// requeueAtLimit schedules a reconcile for a time limit or, while the clock is wrong, periodically.
func (p *planner) requeueAtLimit(limit time.Time) {
	switch {
	case limit.IsZero():
	case p.snapshot.clock.skewed:
		p.requeueAt(p.now.Add(clockRetryInterval), clockSkewed)
	default:
		p.requeueAt(limit, "Deadline")
	}
}

func (p Plan) result(now time.Time) kit.Result {
	if p.RequeueAt.IsZero() {
		return kit.Done()
	}
	return kit.RequeueAfter(p.RequeueAt.Sub(now), p.RequeueReason)
}

// handleRunning shows a running attempt: the first time after a short delay, its progress periodically.
func (p *planner) handleRunning(assignment dispatch.Assignment) {
	stored := p.Status.Epoch == assignment.Epoch && len(p.Status.AssignedAgents) > 0 &&
		!isLeaseOutdated(p.Status.AssignedAgents[0], assignment.Lease)
	if due := assignment.Since.Add(firstWriteDelay); assignment.First && !stored && p.now.Before(due) {
		p.requeueAt(due, "AssignmentUnwritten")
		return
	}
	if due := p.snapshot.view.LastWrite.Add(statusWriteInterval); stored && p.now.Before(due) {
		if assignment.Progress != p.Status.Progress || assignment.Message != p.Status.Message {
			p.requeueAt(due, "ProgressUnwritten")
		}
		return
	}
	p.recordAttempt(assignment.Attempt, assignment.Epoch, assignment.Since)
	p.Status.Phase, p.Status.Reason, p.Status.Message = v1alpha1.TaskRunning, "", truncateMessage(assignment.Message)
	p.Status.Progress, p.Status.ActiveAttempts = assignment.Progress, 1
	p.Status.AssignedAgents = []v1alpha1.AssignedAgent{assignedAgent(assignment)}
}

// assignedAgent returns what the next leader must know of an attempt: its agent, the process whose end proves that it has ended, and how
// long to wait without such a proof.
func assignedAgent(assignment dispatch.Assignment) v1alpha1.AssignedAgent {
	assigned := v1alpha1.AssignedAgent{
		Name: assignment.Agent, Attempt: assignment.Attempt, Epoch: assignment.Epoch,
		Since:        new(metav1.NewTime(assignment.Since.Truncate(time.Second))),
		LeaseSeconds: wholeSeconds(assignment.Lease),
	}
	if by := assignment.Process; isStorableID(by.PodUID) && isStorableID(by.ID) {
		assigned.PodUID, assigned.Process = by.PodUID, by.ID
	}
	return assigned
}

// isLeaseOutdated reports whether the agent may have received a longer lease than is stored with its attempt.
func isLeaseOutdated(assigned v1alpha1.AssignedAgent, lease time.Duration) bool {
	return assigned.LeaseSeconds > 0 && wholeSeconds(lease) > assigned.LeaseSeconds
}

// wholeSeconds rounds up.
func wholeSeconds(lease time.Duration) int32 { return int32((lease + time.Second - 1) / time.Second) }

// recordAttempt records that an attempt was made.
func (p *planner) recordAttempt(attempt int32, epoch int64, since time.Time) {
	p.Status.Attempt, p.Status.Epoch = max(p.Status.Attempt, attempt), max(p.Status.Epoch, epoch)
	p.Status.NextRetryTime = nil
	if p.Status.StartTime == nil {
		p.Status.StartTime = new(metav1.NewTime(since.Truncate(time.Second)))
	}
}

// setPending returns the task to the queue.
func (p *planner) setPending(reason v1alpha1.Reason, message string) {
	p.Status.Phase, p.Status.Reason, p.Status.Message = v1alpha1.TaskPending, string(reason), truncateMessage(message)
	p.Status.Progress, p.Status.AssignedAgents, p.Status.ActiveAttempts = 0, nil, 0
	p.Event = corev1.EventTypeWarning
}

// handleWait reports why no agent has the task, after a delay, and once for each reason.
func (p *planner) handleWait(wait dispatch.Wait) {
	limit := queueDeadline(p.task)
	if p.snapshot.clock.hasPassed(limit, p.now) {
		p.fail(v1alpha1.ReasonTimedOut, fmt.Sprintf(
			"no agent took it within %d s (timeouts.queueSeconds): %s", p.task.Spec.Timeouts.QueueSeconds, wait.Message))
		return
	}
	p.requeueAtLimit(limit)
	if wait.Reason == v1alpha1.ReasonPayloadNotFound {
		p.requeueAt(p.now.Add(configMapRetryInterval), string(wait.Reason))
	}
	if !p.isNewReason(wait.Reason) {
		return
	}
	if due := p.snapshot.view.WaitingSince.Add(dispatch.WaitReportDelay(wait.Reason)); p.now.Before(due) {
		p.requeueAt(due, "WaitUnwritten")
		return
	}
	p.setPending(wait.Reason, wait.Message)
	if slices.Contains(reasonsWithoutEvent, wait.Reason) {
		p.Event = ""
	}
}

// reasonsWithoutEvent are the reasons for waiting that need no event.
var reasonsWithoutEvent = []v1alpha1.Reason{v1alpha1.ReasonNoFreeSlot, v1alpha1.ReasonNoAgentReady, v1alpha1.ReasonPaused,
	v1alpha1.ReasonNamespaceLimitReached}

// isNewReason reports whether a reason to wait differs from the one shown. Backing off is a reason of its own.
func (p *planner) isNewReason(reason v1alpha1.Reason) bool {
	backingOff := p.Status.NextRetryTime != nil && p.now.Before(p.Status.NextRetryTime.Time)
	shown := p.Status.Reason == string(reason) && p.Status.Phase == v1alpha1.TaskPending
	return reason != "" && !backingOff && !shown
}

func (p *planner) applyStop(request stopRequest) {
	if request.phase == v1alpha1.TaskPending {
		if p.Status.Reason != string(request.reason) || p.Status.Phase != request.phase {
			p.setPending(request.reason, request.message)
			p.Event = corev1.EventTypeNormal
		}
		return
	}
	p.finish(request.phase, request.reason, request.message)
}

func (p *planner) fail(reason v1alpha1.Reason, message string) {
	p.finish(v1alpha1.TaskFailed, reason, message)
}

func (p *planner) finish(phase v1alpha1.TaskPhase, reason v1alpha1.Reason, message string) {
	p.Status.Phase, p.Status.Reason, p.Status.Message = phase, string(reason), truncateMessage(message)
	p.Status.AssignedAgents, p.Status.ActiveAttempts, p.Status.NextRetryTime = nil, 0, nil
	p.Status.CompletionTime = new(metav1.NewTime(p.snapshot.clock.serverTime(p.now)))
	p.Event = corev1.EventTypeWarning
	if phase == v1alpha1.TaskCancelled {
		p.Event = corev1.EventTypeNormal
	}
}
