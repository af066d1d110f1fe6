package task

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
)

// noon is the time of all plans.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 300_000_000, time.UTC)

// A planCase is a test case of plan, with the reason for its result.
type planCase struct {
	reason string
	task   func(*v1alpha1.Task)
	world  world
	phase  v1alpha1.TaskPhase
	why    v1alpha1.Reason
	again  time.Duration // from noon; 0 for never
	check  func(*testing.T, Plan)
}

func (c planCase) run(t *testing.T) {
	task := &v1alpha1.Task{}
	task.CreationTimestamp = metav1.NewTime(noon.Add(-time.Minute))
	if c.task != nil {
		c.task(task)
	}
	before := task.DeepCopy()
	got := plan(task, c.world, noon)
	c.compare(t, got)
	c.judge(t, &before.Status, &got.Status)
	if !equality.Semantic.DeepEqual(before, task) {
		t.Errorf("%s: plan changed its input", c.reason)
	}
	if c.check != nil {
		c.check(t, got)
	}
}

// compare compares a plan with the expected one.
func (c planCase) compare(t *testing.T, got Plan) {
	t.Helper()
	if got.Status.Phase != c.phase || got.Status.Reason != string(c.why) {
		t.Errorf("%s: phase %q, reason %q, want %q, %q", c.reason, got.Status.Phase, got.Status.Reason, c.phase, c.why)
	}
	if again := got.Again.Sub(noon); c.again != 0 && again != c.again || c.again == 0 && !got.Again.IsZero() {
		t.Errorf("%s: looks again after %v, want %v", c.reason, again, c.again)
	}
}

// judge checks a status for properties that every status has.
func (c planCase) judge(t *testing.T, before, after *v1alpha1.TaskStatus) {
	t.Helper()
	if broken := brokenRule(before, after); broken != "" {
		t.Errorf("%s: the API server would refuse it: %s", c.reason, broken)
	}
	if final := after.Phase.Final(); final != (after.CompletionTime != nil) || final && (len(after.AssignedAgents) > 0 || after.NextRetryTime != nil) {
		t.Errorf("%s: what is finished has an end, no agent and no retry: %+v", c.reason, after)
	}
}

func holds(t *testing.T, got Plan, right bool) {
	t.Helper()
	if !right {
		t.Errorf("%+v", got)
	}
}

// within allows for times being rounded up to seconds.
func within(got, want time.Duration) bool { return got >= want && got <= want+time.Second }

func ended(outcome linkv1.Outcome, changes ...func(*dispatch.AttemptEnd)) world {
	end := &dispatch.AttemptEnd{Agent: "a", Attempt: 1, Epoch: 7, Since: noon.Add(-2 * time.Second), Outcome: outcome}
	for _, change := range changes {
		change(end)
	}
	return world{view: dispatch.TaskView{End: end}}
}

func lost(end *dispatch.AttemptEnd) { end.Lost, end.Message = true, "agent a was lost" }
func because(reason string) func(*dispatch.AttemptEnd) {
	return func(end *dispatch.AttemptEnd) { end.Reason = reason }
}

func (w world) stopped(how *stop) world { w.stop = how; return w }

func held(since time.Duration, change func(*dispatch.Assignment, *dispatch.TaskView)) world {
	view := dispatch.TaskView{Assignment: &dispatch.Assignment{Agent: "a", Attempt: 1, Epoch: 7, Since: noon.Add(-since), First: true}}
	if change != nil {
		change(view.Assignment, &view)
	}
	return world{view: view}
}

func waits(reason v1alpha1.Reason, since time.Duration) world {
	return world{view: dispatch.TaskView{Wait: &dispatch.Wait{Reason: reason, Message: "because"}, WaitingSince: noon.Add(-since)}}
}

func running(task *v1alpha1.Task) {
	task.Status.Phase, task.Status.Epoch, task.Status.Attempt, task.Status.ActiveAttempts = v1alpha1.TaskRunning, 7, 1, 1
	task.Status.AssignedAgents = []v1alpha1.AssignedAgent{{Name: "a", Attempt: 1, Epoch: 7}}
}

func retries(limit, done int32, nonRetryable ...string) func(*v1alpha1.Task) {
	return func(task *v1alpha1.Task) {
		task.Spec.Retry = v1alpha1.TaskRetry{Limit: &limit, InitialSeconds: 2, Factor: 2, MaxSeconds: 5, NonRetryable: nonRetryable}
		task.Status.Retries = done
	}
}

var (
	cancels  = &stop{v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled, "cancelled"}
	suspends = &stop{v1alpha1.TaskPending, v1alpha1.ReasonSuspended, "suspended"}
	expires  = &stop{v1alpha1.TaskFailed, v1alpha1.ReasonTimedOut, "too late"}
)

func TestPlanOfEnds(t *testing.T) {
	const succeeded, failed, again = linkv1.Outcome_OUTCOME_SUCCEEDED, linkv1.Outcome_OUTCOME_FAILED, linkv1.Outcome_OUTCOME_RETRY
	for _, c := range []planCase{
		{reason: "a success completes the task", task: running, world: ended(succeeded), phase: v1alpha1.TaskCompleted, why: v1alpha1.ReasonCompleted,
			check: func(t *testing.T, p Plan) {
				holds(t, p, p.Status.Progress == 100 && p.Event == "" && p.Status.Epoch == 7)
			}},
		{reason: "a success that was never written is noted with its attempt", world: ended(succeeded), phase: v1alpha1.TaskCompleted, why: v1alpha1.ReasonCompleted,
			check: func(t *testing.T, p Plan) {
				holds(t, p, p.Status.Attempt == 1 && p.Status.Epoch == 7 && p.Status.StartTime.Time.Equal(noon.Add(-2*time.Second).Truncate(time.Second)))
			}},
		{reason: "a success counts although the user cancelled", world: ended(succeeded).stopped(cancels), phase: v1alpha1.TaskCompleted, why: v1alpha1.ReasonCompleted},
		{reason: "a result that does not fit fails", world: ended(succeeded, func(end *dispatch.AttemptEnd) { end.Value = bytes.Repeat([]byte("1"), mostResult+1) }),
			phase: v1alpha1.TaskFailed, why: v1alpha1.ReasonResultTooLarge},
		{reason: "bad input is not tried again", task: retries(3, 0), world: ended(linkv1.Outcome_OUTCOME_BAD_INPUT), phase: v1alpha1.TaskFailed, why: v1alpha1.ReasonBadInput},
		{reason: "a failure is tried again", task: retries(3, 0), world: ended(failed, because("Broken")), phase: v1alpha1.TaskPending, why: v1alpha1.ReasonRetryBackoff,
			check: func(t *testing.T, p Plan) {
				holds(t, p, p.Status.Retries == 1 && within(p.Status.NextRetryTime.Sub(noon), 2*time.Second))
			}},
		{reason: "the wait grows up to its limit", task: retries(9, 5), world: ended(again, because("Busy")), phase: v1alpha1.TaskPending, why: v1alpha1.ReasonRetryBackoff,
			check: func(t *testing.T, p Plan) {
				holds(t, p, p.Status.Retries == 6 && within(p.Status.NextRetryTime.Sub(noon), 5*time.Second))
			}},
		{reason: "the last retry was the last", task: retries(2, 2), world: ended(failed, because("Broken")), phase: v1alpha1.TaskFailed, why: v1alpha1.ReasonRetriesExhausted},
		{reason: "limit 0 means never, and says what failed", task: retries(0, 0), world: ended(failed, because("Broken")), phase: v1alpha1.TaskFailed, why: "Broken"},
		{reason: "a reason that is not to be retried", task: retries(3, 0, "Broken"), world: ended(failed, because("Broken")), phase: v1alpha1.TaskFailed, why: "Broken"},
		{reason: "another reason is", task: retries(3, 0, "Other"), world: ended(failed, because("Broken")), phase: v1alpha1.TaskPending, why: v1alpha1.ReasonRetryBackoff},
		{reason: "a failure after the user cancelled", world: ended(failed).stopped(cancels), phase: v1alpha1.TaskCancelled, why: v1alpha1.ReasonCancelled},
		{reason: "handed back to a user who suspended", world: ended(linkv1.Outcome_OUTCOME_HANDED_BACK).stopped(suspends), phase: v1alpha1.TaskPending, why: v1alpha1.ReasonSuspended},
		{reason: "lost, and too late anyway", world: ended(0, lost).stopped(expires), phase: v1alpha1.TaskFailed, why: v1alpha1.ReasonTimedOut},
		{reason: "a lost agent costs a reassignment, no retry", task: running, world: ended(0, lost), phase: v1alpha1.TaskPending, why: v1alpha1.ReasonLinkLost,
			check: func(t *testing.T, p Plan) {
				holds(t, p, p.Status.Reassignments == 1 && p.Status.Retries == 0 && p.Status.AssignedAgents == nil && p.Status.ActiveAttempts == 0)
			}},
		{reason: "what was lost did not succeed, whatever it says", world: ended(succeeded, lost), phase: v1alpha1.TaskPending, why: v1alpha1.ReasonLinkLost},
		{reason: "five lost agents are bad luck", task: func(task *v1alpha1.Task) { task.Status.Reassignments = 4 }, world: ended(0, lost), phase: v1alpha1.TaskPending, why: v1alpha1.ReasonLinkLost},
		{reason: "six are not", task: func(task *v1alpha1.Task) { task.Status.Reassignments = 5 }, world: ended(0, lost), phase: v1alpha1.TaskFailed, why: v1alpha1.ReasonTooManyReassignments},
		{reason: "handed back costs nothing", world: ended(linkv1.Outcome_OUTCOME_HANDED_BACK), phase: v1alpha1.TaskPending, why: v1alpha1.ReasonHandedBack},
		{reason: "cancelled by an agent that cannot hand back costs nothing", world: ended(linkv1.Outcome_OUTCOME_CANCELLED), phase: v1alpha1.TaskPending, why: v1alpha1.ReasonHandedBack},
		{reason: "declined costs nothing", world: ended(linkv1.Outcome_OUTCOME_DECLINED), phase: v1alpha1.TaskPending, why: v1alpha1.ReasonHandedBack},
		{reason: "long messages keep their end", world: ended(linkv1.Outcome_OUTCOME_BAD_INPUT, func(end *dispatch.AttemptEnd) { end.Message = strings.Repeat("é", 4000) + "!" }),
			phase: v1alpha1.TaskFailed, why: v1alpha1.ReasonBadInput, check: func(t *testing.T, p Plan) {
				holds(t, p, strings.HasSuffix(p.Status.Message, "é!"))
			}},
	} {
		t.Run(c.reason, c.run)
	}
}

func TestPlanOfRuns(t *testing.T) {
	for _, c := range []planCase{
		{reason: "the first assignment is written a second late", world: held(400*time.Millisecond, nil), again: 600 * time.Millisecond},
		{reason: "then it is", world: held(time.Second, nil), phase: v1alpha1.TaskRunning},
		{reason: "a later one is written at once", world: held(0, func(h *dispatch.Assignment, _ *dispatch.TaskView) { h.First = false }), phase: v1alpha1.TaskRunning},
		{reason: "one of an earlier epoch is overwritten", task: running, world: held(0, func(h *dispatch.Assignment, _ *dispatch.TaskView) { h.First, h.Epoch, h.Attempt = false, 8, 2 }),
			phase: v1alpha1.TaskRunning, check: func(t *testing.T, p Plan) {
				holds(t, p, p.Status.Epoch == 8 && p.Status.Attempt == 2 && p.Status.AssignedAgents[0].Epoch == 8)
			}},
		{reason: "what is stored and has not changed needs nothing", task: running, world: held(time.Minute, func(_ *dispatch.Assignment, v *dispatch.TaskView) { v.LastWrite = noon.Add(-3 * time.Second) }), phase: v1alpha1.TaskRunning},
		{reason: "progress waits for its turn", task: running, phase: v1alpha1.TaskRunning, again: 7 * time.Second,
			world: held(time.Minute, func(h *dispatch.Assignment, v *dispatch.TaskView) {
				h.Progress, v.LastWrite = 40, noon.Add(-3*time.Second)
			}),
			check: func(t *testing.T, p Plan) {
				holds(t, p, p.Status.Progress == 0)
			}},
		{reason: "and is written then", task: running, phase: v1alpha1.TaskRunning,
			world: held(time.Minute, func(h *dispatch.Assignment, v *dispatch.TaskView) {
				h.Progress, v.LastWrite = 40, noon.Add(-10*time.Second)
			}),
			check: func(t *testing.T, p Plan) {
				holds(t, p, p.Status.Progress == 40)
			}},
		{reason: "a cancelled task runs until its agent says otherwise", task: running, world: held(time.Minute, nil).stopped(cancels), phase: v1alpha1.TaskRunning},
	} {
		t.Run(c.reason, c.run)
	}
}

func TestPlanOfWaits(t *testing.T) {
	pending := func(reason v1alpha1.Reason) func(*v1alpha1.Task) {
		return func(task *v1alpha1.Task) {
			task.Status.Phase, task.Status.Reason = v1alpha1.TaskPending, string(reason)
		}
	}
	queued := func(seconds int32) func(*v1alpha1.Task) {
		return func(task *v1alpha1.Task) { task.Spec.Timeouts = &v1alpha1.TaskTimeouts{QueueSeconds: seconds} }
	}
	for _, c := range []planCase{
		{reason: "it has not been considered yet", world: waits("", time.Hour)},
		{reason: "a slot may come free soon", world: waits(v1alpha1.ReasonNoFreeSlot, 4*time.Second), again: 6 * time.Second},
		{reason: "it did not", world: waits(v1alpha1.ReasonNoFreeSlot, 10*time.Second), phase: v1alpha1.TaskPending, why: v1alpha1.ReasonNoFreeSlot},
		{reason: "what needs a human is told sooner", world: waits(v1alpha1.ReasonNoAgentOffers, time.Second), phase: v1alpha1.TaskPending, why: v1alpha1.ReasonNoAgentOffers},
		{reason: "told once is enough", task: pending(v1alpha1.ReasonNoFreeSlot), world: waits(v1alpha1.ReasonNoFreeSlot, time.Hour), phase: v1alpha1.TaskPending, why: v1alpha1.ReasonNoFreeSlot,
			check: func(t *testing.T, p Plan) {
				holds(t, p, p.Status.Message == "" && p.Event == "")
			}},
		{reason: "another reason is told", task: pending(v1alpha1.ReasonNoFreeSlot), world: waits(v1alpha1.ReasonNoAgentOffers, time.Hour), phase: v1alpha1.TaskPending, why: v1alpha1.ReasonNoAgentOffers},
		{reason: "a retry that is not due hides it", phase: v1alpha1.TaskPending, why: v1alpha1.ReasonRetryBackoff, world: waits(v1alpha1.ReasonNoFreeSlot, time.Hour),
			task: func(task *v1alpha1.Task) {
				pending(v1alpha1.ReasonRetryBackoff)(task)
				task.Status.NextRetryTime = new(metav1.NewTime(noon.Add(time.Second)))
			}},
		{reason: "a payload that is missing is looked for", world: waits(v1alpha1.ReasonPayloadNotFound, 0), again: time.Second},
		{reason: "the wait for a first attempt has an end", task: queued(60), world: waits(v1alpha1.ReasonNoFreeSlot, 0), phase: v1alpha1.TaskFailed, why: v1alpha1.ReasonTimedOut},
		{reason: "which may be near", task: queued(63), world: waits(v1alpha1.ReasonNoFreeSlot, 0), again: 3 * time.Second},
		{reason: "a fault fails the task", world: world{view: waits("", 0).view, fault: &fault{v1alpha1.ReasonPayloadTooLarge, "too large"}}, phase: v1alpha1.TaskFailed, why: v1alpha1.ReasonPayloadTooLarge},
		{reason: "a task that waits is cancelled at once", world: waits("", 0).stopped(cancels), phase: v1alpha1.TaskCancelled, why: v1alpha1.ReasonCancelled},
		{reason: "or suspended", world: waits("", 0).stopped(suspends), phase: v1alpha1.TaskPending, why: v1alpha1.ReasonSuspended},
	} {
		t.Run(c.reason, c.run)
	}
}
