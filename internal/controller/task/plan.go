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
	// mostReassignments of one task; then something about the task itself must be killing agents.
	mostReassignments = 5
	// mostHandBacks of one task in a row; then no agent is able or willing to run it.
	mostHandBacks = 20
	// steadyRun is how long an attempt has to run for its hand-back to be no sign of trouble.
	steadyRun = 10 * time.Minute
	// writtenAfter is how long the first assignment may stay unwritten, shownEvery how often progress is written.
	writtenAfter, shownEvery = time.Second, 10 * time.Second
	// lookAgain is how soon a ConfigMap that is missing is looked for again.
	lookAgain = 5 * time.Second
)

// A Plan is what to write about a task and when to look again.
type Plan struct {
	Status v1alpha1.TaskStatus
	Event  string    // the kind of event that the change is worth, empty when it is worth none
	Again  time.Time // zero: only when something happens
	Why    string
}

// plan decides what has become of a task.
func plan(task *v1alpha1.Task, world world, now time.Time) Plan {
	p := &planner{task: task, world: world, now: now, Plan: Plan{Status: *task.Status.DeepCopy()}}
	p.watch(deadline(task))
	switch {
	case world.view.Ended != nil:
		p.conclude(*world.view.Ended)
	case world.view.Held != nil:
		p.run(*world.view.Held)
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

// watch has the task looked at when a time limit passes, or, as long as the clock cannot tell when that is, now and then.
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

// run shows an attempt in the hands of an agent, the first time a little late, its progress now and then.
func (p *planner) run(held dispatch.Held) {
	stored := p.Status.Epoch == held.Epoch && len(p.Status.AssignedAgents) > 0 && !outgrown(p.Status.AssignedAgents[0], held.Lease)
	if due := held.Since.Add(writtenAfter); held.First && !stored && p.now.Before(due) {
		p.again(due, "AssignmentUnwritten")
		return
	}
	if due := p.world.view.Wrote.Add(shownEvery); stored && p.now.Before(due) {
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

// assignment is what the next leader has to know of an attempt: who has it, by which process it can be proven to have ended, and how long
// to wait without a proof.
func assignment(held dispatch.Held) v1alpha1.AssignedAgent {
	given := v1alpha1.AssignedAgent{
		Name: held.Agent, Attempt: held.Attempt, Epoch: held.Epoch, Since: new(metav1.NewTime(held.Since.Truncate(time.Second))),
		LeaseSeconds: wholeSeconds(held.Lease),
	}
	if by := held.Process; storableID(by.PodUID) && storableID(by.ID) {
		given.PodUID, given.Process = by.PodUID, by.ID
	}
	return given
}

// outgrown reports whether the agent may have been told a longer lease than is stored with its attempt.
func outgrown(given v1alpha1.AssignedAgent, lease time.Duration) bool {
	return given.LeaseSeconds > 0 && wholeSeconds(lease) > given.LeaseSeconds
}

// wholeSeconds rounds up.
func wholeSeconds(lease time.Duration) int32 { return int32((lease + time.Second - 1) / time.Second) }

// begin notes that an attempt was made.
func (p *planner) begin(attempt int32, epoch int64, since time.Time) {
	p.Status.Attempt, p.Status.Epoch = max(p.Status.Attempt, attempt), max(p.Status.Epoch, epoch)
	p.Status.NextRetryTime = nil
	if p.Status.StartTime == nil {
		p.Status.StartTime = new(metav1.NewTime(since.Truncate(time.Second)))
	}
}

// pend puts the task back among those that wait.
func (p *planner) pend(reason v1alpha1.Reason, message string) {
	p.Status.Phase, p.Status.Reason, p.Status.Message = v1alpha1.TaskPending, string(reason), short(message)
	p.Status.Progress, p.Status.AssignedAgents, p.Status.ActiveAttempts = 0, nil, 0
	p.Event = corev1.EventTypeWarning
}

// wait says why nobody has the task, once that has lasted, and once for each reason.
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
	if due := p.world.view.Since.Add(dispatch.ToldAfter(why.Reason)); p.now.Before(due) {
		p.again(due, "WaitUnwritten")
		return
	}
	p.pend(why.Reason, why.Message)
	if slices.Contains(ordinary, why.Reason) {
		p.Event = ""
	}
}

// ordinary are waits that nobody need be told of by an event.
var ordinary = []v1alpha1.Reason{v1alpha1.ReasonNoFreeSlot, v1alpha1.ReasonNoAgentReady, v1alpha1.ReasonPaused, v1alpha1.ReasonNamespaceLimitReached}

// news tells whether a reason to wait is another one than is shown. Backing off is a reason of its own.
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
