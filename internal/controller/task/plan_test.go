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
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

// noon is the time of all plans.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 300_000_000, time.UTC)

// A planCase is a test case of plan, with the reason for its result.
type planCase struct {
	reason       string
	task         func(*v1alpha1.Task)
	snapshot     snapshot
	phase        v1alpha1.TaskPhase
	wantReason   v1alpha1.Reason
	requeueAfter time.Duration // from noon; 0 for never
	check        func(*testing.T, Plan)
}

func (c planCase) run(t *testing.T) {
	task := &v1alpha1.Task{}
	task.CreationTimestamp = metav1.NewTime(noon.Add(-time.Minute))
	if c.task != nil {
		c.task(task)
	}
	before := task.DeepCopy()
	got := plan(task, c.snapshot, noon)
	c.compare(t, got)
	c.checkInvariants(t, &before.Status, &got.Status)
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
	if got.Status.Phase != c.phase || got.Status.Reason != string(c.wantReason) {
		t.Errorf("%s: phase %q, reason %q, want %q, %q", c.reason, got.Status.Phase, got.Status.Reason, c.phase, c.wantReason)
	}
	if again := got.RequeueAt.Sub(noon); c.requeueAfter != 0 && again != c.requeueAfter || c.requeueAfter == 0 && !got.RequeueAt.IsZero() {
		t.Errorf("%s: looks again after %v, want %v", c.reason, again, c.requeueAfter)
	}
}

// checkInvariants checks a status for properties that every status has.
func (c planCase) checkInvariants(t *testing.T, before, after *v1alpha1.TaskStatus) {
	t.Helper()
	if violation := brokenRule(before, after); violation != "" {
		t.Errorf("%s: the API server would refuse it: %s", c.reason, violation)
	}
	if final := after.Phase.Final(); final != (after.CompletionTime != nil) ||
		final && (len(after.AssignedAgents) > 0 || after.NextRetryTime != nil) {
		t.Errorf("%s: what is finished has an end, no agent and no retry: %+v", c.reason, after)
	}
}

func assertPlan(t *testing.T, got Plan, right bool) {
	t.Helper()
	if !right {
		t.Errorf("%+v", got)
	}
}

// within allows for times being rounded up to seconds.
func within(got, want time.Duration) bool { return got >= want && got <= want+time.Second }

func endSnapshot(outcome linkv1.Outcome, changes ...func(*dispatch.AttemptEnd)) snapshot {
	end := &dispatch.AttemptEnd{Agent: "a", Attempt: 1, Epoch: 7, Since: noon.Add(-2 * time.Second), Outcome: outcome}
	for _, change := range changes {
		change(end)
	}
	return snapshot{view: dispatch.TaskView{End: end}}
}

func lostEnd(end *dispatch.AttemptEnd) { end.Lost, end.Message = true, "agent a was lost" }
func withReason(reason string) func(*dispatch.AttemptEnd) {
	return func(end *dispatch.AttemptEnd) { end.Reason = reason }
}

func (s snapshot) withStop(how *stopRequest) snapshot { s.stopRequest = how; return s }

func assignedSnapshot(since time.Duration, change func(*dispatch.Assignment, *dispatch.TaskView)) snapshot {
	view := dispatch.TaskView{Assignment: &dispatch.Assignment{Agent: "a", Attempt: 1, Epoch: 7, Since: noon.Add(-since), First: true}}
	if change != nil {
		change(view.Assignment, &view)
	}
	return snapshot{view: view}
}

func waitingSnapshot(reason v1alpha1.Reason, since time.Duration) snapshot {
	return snapshot{view: dispatch.TaskView{Wait: &dispatch.Wait{Reason: reason, Message: "because"}, WaitingSince: noon.Add(-since)}}
}

func setRunning(task *v1alpha1.Task) {
	task.Status.Phase, task.Status.Epoch, task.Status.Attempt, task.Status.ActiveAttempts = v1alpha1.TaskRunning, 7, 1, 1
	task.Status.AssignedAgents = []v1alpha1.AssignedAgent{{Name: "a", Attempt: 1, Epoch: 7}}
}

func withRetries(limit, done int32, nonRetryable ...string) func(*v1alpha1.Task) {
	return func(task *v1alpha1.Task) {
		task.Spec.Retry = v1alpha1.TaskRetry{Limit: &limit, InitialSeconds: 2, Factor: 2, MaxSeconds: 5, NonRetryable: nonRetryable}
		task.Status.Retries = done
	}
}

var (
	cancelRequest  = &stopRequest{v1alpha1.TaskCancelled, v1alpha1.ReasonCancelled, "cancelled"}
	suspendRequest = &stopRequest{v1alpha1.TaskPending, v1alpha1.ReasonSuspended, "suspended"}
	timeoutRequest = &stopRequest{v1alpha1.TaskFailed, v1alpha1.ReasonTimedOut, "too late"}
)

func TestPlanOfEnds(t *testing.T) {
	const succeeded, failed, again = linkv1.Outcome_OUTCOME_SUCCEEDED, linkv1.Outcome_OUTCOME_FAILED, linkv1.Outcome_OUTCOME_RETRY
	for _, c := range []planCase{
		{reason: "a success completes the task", task: setRunning, snapshot: endSnapshot(succeeded), phase: v1alpha1.TaskCompleted,
			wantReason: v1alpha1.ReasonCompleted,
			check: func(t *testing.T, p Plan) {
				assertPlan(t, p, p.Status.Progress == 100 && p.Event == "" && p.Status.Epoch == 7)
			}},
		{reason: "a success that was never written is noted with its attempt", snapshot: endSnapshot(succeeded), phase: v1alpha1.TaskCompleted,
			wantReason: v1alpha1.ReasonCompleted,
			check: func(t *testing.T, p Plan) {
				assertPlan(t, p, p.Status.Attempt == 1 && p.Status.Epoch == 7 &&
					p.Status.StartTime.Time.Equal(noon.Add(-2*time.Second).Truncate(time.Second)))
			}},
		{reason: "a success counts although the user cancelled", snapshot: endSnapshot(succeeded).withStop(cancelRequest),
			phase: v1alpha1.TaskCompleted, wantReason: v1alpha1.ReasonCompleted},
		{reason: "a result that does not fit fails", snapshot: endSnapshot(succeeded,
			func(end *dispatch.AttemptEnd) { end.Value = bytes.Repeat([]byte("1"), maxResult+1) }),
			phase: v1alpha1.TaskFailed, wantReason: v1alpha1.ReasonResultTooLarge},
		{reason: "bad input is not tried again", task: withRetries(3, 0), snapshot: endSnapshot(linkv1.Outcome_OUTCOME_BAD_INPUT),
			phase: v1alpha1.TaskFailed, wantReason: v1alpha1.ReasonBadInput},
		{reason: "a failure is tried again", task: withRetries(3, 0), snapshot: endSnapshot(failed, withReason("Broken")),
			phase: v1alpha1.TaskPending, wantReason: v1alpha1.ReasonRetryBackoff,
			check: func(t *testing.T, p Plan) {
				assertPlan(t, p, p.Status.Retries == 1 && within(p.Status.NextRetryTime.Sub(noon), 2*time.Second))
			}},
		{reason: "the wait grows up to its limit", task: withRetries(9, 5), snapshot: endSnapshot(again, withReason("Busy")),
			phase: v1alpha1.TaskPending, wantReason: v1alpha1.ReasonRetryBackoff,
			check: func(t *testing.T, p Plan) {
				assertPlan(t, p, p.Status.Retries == 6 && within(p.Status.NextRetryTime.Sub(noon), 5*time.Second))
			}},
		{reason: "the last retry was the last", task: withRetries(2, 2), snapshot: endSnapshot(failed, withReason("Broken")),
			phase: v1alpha1.TaskFailed, wantReason: v1alpha1.ReasonRetriesExhausted},
		{reason: "limit 0 means never, and says what failed", task: withRetries(0, 0), snapshot: endSnapshot(failed, withReason("Broken")),
			phase: v1alpha1.TaskFailed, wantReason: "Broken"},
		{reason: "a reason that is not to be retried", task: withRetries(3, 0, "Broken"), snapshot: endSnapshot(failed, withReason("Broken")),
			phase: v1alpha1.TaskFailed, wantReason: "Broken"},
		{reason: "another reason is", task: withRetries(3, 0, "Other"), snapshot: endSnapshot(failed, withReason("Broken")),
			phase: v1alpha1.TaskPending, wantReason: v1alpha1.ReasonRetryBackoff},
		{reason: "a failure after the user cancelled", snapshot: endSnapshot(failed).withStop(cancelRequest), phase: v1alpha1.TaskCancelled,
			wantReason: v1alpha1.ReasonCancelled},
		{reason: "handed back to a user who suspended", snapshot: endSnapshot(linkv1.Outcome_OUTCOME_HANDED_BACK).withStop(suspendRequest),
			phase: v1alpha1.TaskPending, wantReason: v1alpha1.ReasonSuspended},
		{reason: "lost, and too late anyway", snapshot: endSnapshot(0, lostEnd).withStop(timeoutRequest), phase: v1alpha1.TaskFailed,
			wantReason: v1alpha1.ReasonTimedOut},
		{reason: "a lost agent costs a reassignment, no retry", task: setRunning, snapshot: endSnapshot(0, lostEnd), phase: v1alpha1.TaskPending,
			wantReason: v1alpha1.ReasonLinkLost,
			check: func(t *testing.T, p Plan) {
				assertPlan(t, p, p.Status.Reassignments == 1 && p.Status.Retries == 0 && p.Status.AssignedAgents == nil && p.Status.ActiveAttempts == 0)
			}},
		{reason: "what was lost did not succeed, whatever it says", snapshot: endSnapshot(succeeded, lostEnd), phase: v1alpha1.TaskPending,
			wantReason: v1alpha1.ReasonLinkLost},
		{reason: "five lost agents are bad luck", task: func(task *v1alpha1.Task) { task.Status.Reassignments = 4 },
			snapshot: endSnapshot(0, lostEnd), phase: v1alpha1.TaskPending, wantReason: v1alpha1.ReasonLinkLost},
		{reason: "six are not", task: func(task *v1alpha1.Task) { task.Status.Reassignments = 5 }, snapshot: endSnapshot(0, lostEnd),
			phase: v1alpha1.TaskFailed, wantReason: v1alpha1.ReasonTooManyReassignments},
		{reason: "handed back costs nothing", snapshot: endSnapshot(linkv1.Outcome_OUTCOME_HANDED_BACK), phase: v1alpha1.TaskPending,
			wantReason: v1alpha1.ReasonHandedBack},
		{reason: "cancelled by an agent that cannot hand back costs nothing", snapshot: endSnapshot(linkv1.Outcome_OUTCOME_CANCELLED),
			phase: v1alpha1.TaskPending, wantReason: v1alpha1.ReasonHandedBack},
		{reason: "declined costs nothing", snapshot: endSnapshot(linkv1.Outcome_OUTCOME_DECLINED), phase: v1alpha1.TaskPending,
			wantReason: v1alpha1.ReasonHandedBack},
		{reason: "long messages keep their end", snapshot: endSnapshot(linkv1.Outcome_OUTCOME_BAD_INPUT,
			func(end *dispatch.AttemptEnd) { end.Message = strings.Repeat("é", 4000) + "!" }),
			phase: v1alpha1.TaskFailed, wantReason: v1alpha1.ReasonBadInput, check: func(t *testing.T, p Plan) {
				assertPlan(t, p, strings.HasSuffix(p.Status.Message, "é!"))
			}},
	} {
		t.Run(c.reason, c.run)
	}
}

func TestPlanOfRuns(t *testing.T) {
	for _, c := range []planCase{
		{reason: "the first assignment is written a second late", snapshot: assignedSnapshot(400*time.Millisecond, nil),
			requeueAfter: 600 * time.Millisecond},
		{reason: "then it is", snapshot: assignedSnapshot(time.Second, nil), phase: v1alpha1.TaskRunning},
		{reason: "a later one is written at once", snapshot: assignedSnapshot(0,
			func(h *dispatch.Assignment, _ *dispatch.TaskView) { h.First = false }), phase: v1alpha1.TaskRunning},
		{reason: "one of an earlier epoch is overwritten", task: setRunning,
			snapshot: assignedSnapshot(0, func(h *dispatch.Assignment, _ *dispatch.TaskView) { h.First, h.Epoch, h.Attempt = false, 8, 2 }),
			phase:    v1alpha1.TaskRunning, check: func(t *testing.T, p Plan) {
				assertPlan(t, p, p.Status.Epoch == 8 && p.Status.Attempt == 2 && p.Status.AssignedAgents[0].Epoch == 8)
			}},
		{reason: "what is stored and has not changed needs nothing", task: setRunning,
			snapshot: assignedSnapshot(time.Minute, func(_ *dispatch.Assignment, v *dispatch.TaskView) { v.LastWrite = noon.Add(-3 * time.Second) }),
			phase:    v1alpha1.TaskRunning},
		{reason: "progress waits for its turn", task: setRunning, phase: v1alpha1.TaskRunning, requeueAfter: 7 * time.Second,
			snapshot: assignedSnapshot(time.Minute, func(h *dispatch.Assignment, v *dispatch.TaskView) {
				h.Progress, v.LastWrite = 40, noon.Add(-3*time.Second)
			}),
			check: func(t *testing.T, p Plan) {
				assertPlan(t, p, p.Status.Progress == 0)
			}},
		{reason: "and is written then", task: setRunning, phase: v1alpha1.TaskRunning,
			snapshot: assignedSnapshot(time.Minute, func(h *dispatch.Assignment, v *dispatch.TaskView) {
				h.Progress, v.LastWrite = 40, noon.Add(-10*time.Second)
			}),
			check: func(t *testing.T, p Plan) {
				assertPlan(t, p, p.Status.Progress == 40)
			}},
		{reason: "a cancelled task runs until its agent says otherwise", task: setRunning,
			snapshot: assignedSnapshot(time.Minute, nil).withStop(cancelRequest), phase: v1alpha1.TaskRunning},
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
		{reason: "it has not been considered yet", snapshot: waitingSnapshot("", time.Hour)},
		{reason: "a slot may come free soon", snapshot: waitingSnapshot(v1alpha1.ReasonNoFreeSlot, 4*time.Second), requeueAfter: 6 * time.Second},
		{reason: "it did not", snapshot: waitingSnapshot(v1alpha1.ReasonNoFreeSlot, 10*time.Second), phase: v1alpha1.TaskPending,
			wantReason: v1alpha1.ReasonNoFreeSlot},
		{reason: "what needs a human is told sooner", snapshot: waitingSnapshot(v1alpha1.ReasonNoAgentOffers, time.Second),
			phase: v1alpha1.TaskPending, wantReason: v1alpha1.ReasonNoAgentOffers},
		{reason: "told once is enough", task: pending(v1alpha1.ReasonNoFreeSlot), snapshot: waitingSnapshot(v1alpha1.ReasonNoFreeSlot, time.Hour),
			phase: v1alpha1.TaskPending, wantReason: v1alpha1.ReasonNoFreeSlot,
			check: func(t *testing.T, p Plan) {
				assertPlan(t, p, p.Status.Message == "" && p.Event == "")
			}},
		{reason: "another reason is told", task: pending(v1alpha1.ReasonNoFreeSlot),
			snapshot: waitingSnapshot(v1alpha1.ReasonNoAgentOffers, time.Hour), phase: v1alpha1.TaskPending,
			wantReason: v1alpha1.ReasonNoAgentOffers},
		{reason: "a retry that is not due hides it", phase: v1alpha1.TaskPending, wantReason: v1alpha1.ReasonRetryBackoff,
			snapshot: waitingSnapshot(v1alpha1.ReasonNoFreeSlot, time.Hour),
			task: func(task *v1alpha1.Task) {
				pending(v1alpha1.ReasonRetryBackoff)(task)
				task.Status.NextRetryTime = new(metav1.NewTime(noon.Add(time.Second)))
			}},
		{reason: "a payload that is missing is looked for", snapshot: waitingSnapshot(v1alpha1.ReasonPayloadNotFound, 0),
			requeueAfter: time.Second},
		{reason: "the wait for a first attempt has an end", task: queued(60), snapshot: waitingSnapshot(v1alpha1.ReasonNoFreeSlot, 0),
			phase: v1alpha1.TaskFailed, wantReason: v1alpha1.ReasonTimedOut},
		{reason: "which may be near", task: queued(63), snapshot: waitingSnapshot(v1alpha1.ReasonNoFreeSlot, 0), requeueAfter: 3 * time.Second},
		{reason: "a fault fails the task", snapshot: snapshot{view: waitingSnapshot("", 0).view,
			failure: &permanentFailure{v1alpha1.ReasonPayloadTooLarge, "too large"}}, phase: v1alpha1.TaskFailed,
			wantReason: v1alpha1.ReasonPayloadTooLarge},
		{reason: "a task that waits is cancelled at once", snapshot: waitingSnapshot("", 0).withStop(cancelRequest),
			phase: v1alpha1.TaskCancelled, wantReason: v1alpha1.ReasonCancelled},
		{reason: "or suspended", snapshot: waitingSnapshot("", 0).withStop(suspendRequest), phase: v1alpha1.TaskPending,
			wantReason: v1alpha1.ReasonSuspended},
	} {
		t.Run(c.reason, c.run)
	}
}
