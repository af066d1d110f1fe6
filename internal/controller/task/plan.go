package task

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
	"github.com/swarm-io/swarm-operator/kit"
)

const (
	// mostReassignments limits lost agents per task; beyond that the task itself is probably killing its agents.
	mostReassignments = 5
	// mostHandBacks limits consecutive hand-backs; beyond that no agent is able or willing to run the task.
	mostHandBacks = 20
	// steadyRun is the run time after which a hand-back does not indicate a problem.
	steadyRun = 10 * time.Minute
	// writtenAfter is the maximum delay of writing the first assignment, shownEvery the interval between writes of progress.
	writtenAfter, shownEvery = time.Second, 10 * time.Second
	// lookAgain is the delay before a missing ConfigMap is read again.
	lookAgain = 5 * time.Second
)

// A Plan is the status to write, and when to reconcile again.
type Plan struct {
	Status v1alpha1.TaskStatus
	Event  string    // type of the event for the change, empty for none
	Again  time.Time // zero: only on an event
	Why    string
}

// plan decides the next status of a task.
func plan(task *v1alpha1.Task, world world, now time.Time) Plan {
	p := &planner{task: task, world: world, now: now, Plan: Plan{Status: *task.Status.DeepCopy()}}
	p.watch(deadline(task))
	switch {
	case world.view.End != nil:
		p.conclude(*world.view.End)
	case world.view.Assignment != nil:
		p.run(*world.view.Assignment)
	case world.fault != nil:
		p.fail(world.fault.reason, world.fault.message)
	case world.stop != nil:
		p.stop(*world.stop)
	default:
		p.wait(*world.view.Wait)
	}
	return p.Plan
}

type planner struct {
	Plan
	task  *v1alpha1.Task
	world world
	now   time.Time
}

func (p *planner) again(at time.Time, why string) {
	if !at.IsZero() && (p.Again.IsZero() || at.Before(p.Again)) {
		p.Again, p.Why = at, why
	}
}

// watch schedules a reconcile for a time limit or, while the clock is wrong, periodically.
func (p *planner) watch(limit time.Time) {
	switch {
	case limit.IsZero():
	case p.world.clock.skewed:
		p.again(p.now.Add(clockLookAgain), clockSkewed)
	default:
		p.again(limit, "Deadline")
	}
}

func (p Plan) result(now time.Time) kit.Result {
	if p.Again.IsZero() {
		return kit.Done()
	}
	return kit.RequeueAfter(p.Again.Sub(now), p.Why)
}

// run shows a running attempt: the first time after a short delay, its progress periodically.
func (p *planner) run(held dispatch.Assignment) {
	stored := p.Status.Epoch == held.Epoch && len(p.Status.AssignedAgents) > 0 && !outgrown(p.Status.AssignedAgents[0], held.Lease)
	if due := held.Since.Add(writtenAfter); held.First && !stored && p.now.Before(due) {
		p.again(due, "AssignmentUnwritten")
		return
	}
	if due := p.world.view.LastWrite.Add(shownEvery); stored && p.now.Before(due) {
		if held.Progress != p.Status.Progress || held.Message != p.Status.Message {
			p.again(due, "ProgressUnwritten")
		}
		return
	}
	p.begin(held.Attempt, held.Epoch, held.Since)
	p.Status.Phase, p.Status.Reason, p.Status.Message = v1alpha1.TaskRunning, "", short(held.Message)
	p.Status.Progress, p.Status.ActiveAttempts = held.Progress, 1
	p.Status.AssignedAgents = []v1alpha1.AssignedAgent{assignment(held)}
}

// assignment returns what the next leader must know of an attempt: its agent, the process whose end proves that it has ended, and how
// long to wait without such a proof.
func assignment(held dispatch.Assignment) v1alpha1.AssignedAgent {
	given := v1alpha1.AssignedAgent{
		Name: held.Agent, Attempt: held.Attempt, Epoch: held.Epoch, Since: new(metav1.NewTime(held.Since.Truncate(time.Second))),
		LeaseSeconds: wholeSeconds(held.Lease),
	}
	if by := held.Process; storableID(by.PodUID) && storableID(by.ID) {
		given.PodUID, given.Process = by.PodUID, by.ID
	}
	return given
}

// outgrown reports whether the agent may have received a longer lease than is stored with its attempt.
func outgrown(given v1alpha1.AssignedAgent, lease time.Duration) bool {
	return given.LeaseSeconds > 0 && wholeSeconds(lease) > given.LeaseSeconds
}

// wholeSeconds rounds up.
func wholeSeconds(lease time.Duration) int32 { return int32((lease + time.Second - 1) / time.Second) }

// begin records that an attempt was made.
func (p *planner) begin(attempt int32, epoch int64, since time.Time) {
	p.Status.Attempt, p.Status.Epoch = max(p.Status.Attempt, attempt), max(p.Status.Epoch, epoch)
	p.Status.NextRetryTime = nil
	if p.Status.StartTime == nil {
		p.Status.StartTime = new(metav1.NewTime(since.Truncate(time.Second)))
	}
}

// pend returns the task to the queue.
func (p *planner) pend(reason v1alpha1.Reason, message string) {
	p.Status.Phase, p.Status.Reason, p.Status.Message = v1alpha1.TaskPending, string(reason), short(message)
	p.Status.Progress, p.Status.AssignedAgents, p.Status.ActiveAttempts = 0, nil, 0
	p.Event = corev1.EventTypeWarning
}

// wait reports why no agent has the task, after a delay, and once for each reason.
func (p *planner) wait(why dispatch.Wait) {
	limit := queueDeadline(p.task)
	if p.world.clock.passed(limit, p.now) {
		p.fail(v1alpha1.ReasonTimedOut, fmt.Sprintf(
			"no agent took it within %d s (timeouts.queueSeconds): %s", p.task.Spec.Timeouts.QueueSeconds, why.Message))
		return
	}
	p.watch(limit)
	if why.Reason == v1alpha1.ReasonPayloadNotFound {
		p.again(p.now.Add(lookAgain), string(why.Reason))
	}
	if !p.news(why.Reason) {
		return
	}
	if due := p.world.view.WaitingSince.Add(dispatch.WaitReportDelay(why.Reason)); p.now.Before(due) {
		p.again(due, "WaitUnwritten")
		return
	}
	p.pend(why.Reason, why.Message)
	if slices.Contains(ordinary, why.Reason) {
		p.Event = ""
	}
}

// ordinary are the reasons for waiting that need no event.
var ordinary = []v1alpha1.Reason{v1alpha1.ReasonNoFreeSlot, v1alpha1.ReasonNoAgentReady, v1alpha1.ReasonPaused, v1alpha1.ReasonNamespaceLimitReached}

// news reports whether a reason to wait differs from the one shown. Backing off is a reason of its own.
func (p *planner) news(reason v1alpha1.Reason) bool {
	backingOff := p.Status.NextRetryTime != nil && p.now.Before(p.Status.NextRetryTime.Time)
	shown := p.Status.Reason == string(reason) && p.Status.Phase == v1alpha1.TaskPending
	return reason != "" && !backingOff && !shown
}

func (p *planner) stop(what stop) {
	if what.phase == v1alpha1.TaskPending {
		if p.Status.Reason != string(what.reason) || p.Status.Phase != what.phase {
			p.pend(what.reason, what.message)
			p.Event = corev1.EventTypeNormal
		}
		return
	}
	p.finish(what.phase, what.reason, what.message)
}

func (p *planner) fail(reason v1alpha1.Reason, message string) {
	p.finish(v1alpha1.TaskFailed, reason, message)
}

func (p *planner) finish(phase v1alpha1.TaskPhase, reason v1alpha1.Reason, message string) {
	p.Status.Phase, p.Status.Reason, p.Status.Message = phase, string(reason), short(message)
	p.Status.AssignedAgents, p.Status.ActiveAttempts, p.Status.NextRetryTime = nil, 0, nil
	p.Status.CompletionTime = new(metav1.NewTime(p.world.clock.stamp(p.now)))
	p.Event = corev1.EventTypeWarning
	if phase == v1alpha1.TaskCancelled {
		p.Event = corev1.EventTypeNormal
	}
}
