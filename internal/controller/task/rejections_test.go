package task

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

// A success whose value the API server cannot store fails the task with a reason that explains it.
func TestPlanOfValuesThatCannotBeStored(t *testing.T) {
	const done, invalid = v1alpha1.TaskCompleted, v1alpha1.TaskFailed
	expected := map[v1alpha1.TaskPhase]v1alpha1.Reason{done: v1alpha1.ReasonCompleted, invalid: v1alpha1.ReasonResultInvalid}
	for value, phase := range map[string]v1alpha1.TaskPhase{
		`{"ts": 1763258273123456789}`:       done,
		`{"n": 12345678901234567890123}`:    done,
		`1e308`:                             done,
		`null`:                              done,
		`{"x":1,"x":2}`:                     done,
		``:                                  done,
		`1e400`:                             invalid,
		`{"a": [1, {"b": -1e400}]}`:         invalid,
		`not json`:                          invalid,
		`{"a": 1} {"b": 2}`:                 invalid,
		"\"\xff\"":                          invalid,
		`{"a":`:                             invalid,
		` `:                                 invalid,
		strings.Repeat("[", 2000) + "1e400": invalid,
	} {
		planCase{reason: value, snapshot: endSnapshot(linkv1.Outcome_OUTCOME_SUCCEEDED,
			func(end *dispatch.AttemptEnd) { end.Value = []byte(value) }),
			phase: phase, wantReason: expected[phase],
			check: func(t *testing.T, p Plan) {
				assertPlan(t, p, phase == done || p.Status.Result == nil && p.Status.Message != "")
				assertPlan(t, p, (p.Status.Result != nil) == (phase == done && value != "" && value != "null"))
			},
		}.run(t)
	}
}

// A reason that the API server would refuse is replaced, and remains readable in the message.
func TestPlanOfReasonsThatCannotBeStored(t *testing.T) {
	for reason, want := range map[string]v1alpha1.Reason{
		"HandlerFailed":          "HandlerFailed",
		"a_1":                    "a_1",
		strings.Repeat("r", 128): v1alpha1.Reason(strings.Repeat("r", 128)),
		strings.Repeat("r", 129): v1alpha1.ReasonAttemptFailed,
		"out-of-memory":          v1alpha1.ReasonAttemptFailed,
		"ends_":                  v1alpha1.ReasonAttemptFailed,
		"1st":                    v1alpha1.ReasonAttemptFailed,
		"":                       v1alpha1.ReasonAttemptFailed,
	} {
		failed := endSnapshot(linkv1.Outcome_OUTCOME_FAILED, withReason(reason), func(end *dispatch.AttemptEnd) { end.Message = "it broke" })
		planCase{reason: reason, task: withRetries(0, 0), snapshot: failed, phase: v1alpha1.TaskFailed, wantReason: want,
			check: func(t *testing.T, p Plan) {
				quoted := strings.Contains(p.Status.Message, reason)
				assertPlan(t, p, strings.HasSuffix(p.Status.Message, "it broke") && quoted == (want == v1alpha1.ReasonAttemptFailed))
			}}.run(t)
	}
	silent := endSnapshot(linkv1.Outcome_OUTCOME_FAILED, withReason("out-of-memory"))
	planCase{reason: "no message", task: withRetries(0, 0), snapshot: silent, phase: v1alpha1.TaskFailed,
		wantReason: v1alpha1.ReasonAttemptFailed,
		check:      func(t *testing.T, p Plan) { assertPlan(t, p, strings.Contains(p.Status.Message, "out-of-memory")) }}.run(t)
}

func TestPlanOfMessagesThatCannotBeStored(t *testing.T) {
	broken := endSnapshot(linkv1.Outcome_OUTCOME_BAD_INPUT, func(end *dispatch.AttemptEnd) { end.Message = "bad \xff bytes" })
	planCase{reason: "no UTF-8", snapshot: broken, phase: v1alpha1.TaskFailed, wantReason: v1alpha1.ReasonBadInput,
		check: func(t *testing.T, p Plan) { assertPlan(t, p, p.Status.Message == "bad \uFFFD bytes") }}.run(t)
}

// The same with a complete operator: the task ends, and the agent may forget the result.
func TestResultThatCannotBeStoredEndsItsTask(t *testing.T) {
	for value, work := range map[string]behavior{
		"1e400":    {duration: time.Second, value: "1e400"},
		"not json": {duration: time.Second, value: "not json"},
	} {
		simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
			sim.submit("t", work)
			sim.advance(20 * time.Second)
			if status := sim.status("t"); status.Phase != v1alpha1.TaskFailed || status.Reason != string(v1alpha1.ReasonResultInvalid) {
				t.Errorf("%s: %+v", value, status)
			}
			if acks := sim.attempts.acksOfTaskT(); len(acks) != 1 || len(sim.attempts.runsOf("t")) != 1 {
				t.Errorf("%s: %+v\n%s", value, acks, sim.describe())
			}
		})
	}
}

func TestReasonThatCannotBeStoredDoesNotHoldUpItsTask(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: time.Second, outcome: linkv1.Outcome_OUTCOME_FAILED, reason: "out-of-memory"},
			func(spec *v1alpha1.TaskSpec) {
				spec.Retry.Limit = new(int32(1))
			})
		sim.advance(time.Minute)
		if status := sim.status("t"); status.Reason != string(v1alpha1.ReasonRetriesExhausted) || len(sim.attempts.runsOf("t")) != 2 {
			t.Errorf("%+v\n%s", status, sim.describe())
		}
	})
}

// setRejects makes the API server refuse the statuses for which a function returns true.
func (f *faults) setRejects(matches func(*v1alpha1.TaskStatus) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rejects = matches
}

func (f *faults) rejection(task *v1alpha1.Task) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rejects == nil || !f.rejects(&task.Status) {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: "swarm.io", Kind: "Task"}, task.Name, nil)
}

// If the API server refuses an end for any reason, the task ends with a status made of constants.
func TestEndThatIsRejectedRepeatedlyFailsItsTask(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.faults.setRejects(func(status *v1alpha1.TaskStatus) bool { return status.Result != nil })
		sim.submit("t", behavior{duration: 3 * time.Second})
		sim.advance(5 * time.Second)
		if status := sim.status("t"); status.Phase != v1alpha1.TaskRunning {
			t.Fatalf("a refusal may be temporary: %+v", status)
		}
		sim.advance(time.Minute)
		status := sim.status("t")
		if status.Phase != v1alpha1.TaskFailed || status.Reason != string(v1alpha1.ReasonResultInvalid) || len(sim.attempts.runsOf("t")) != 1 {
			t.Errorf("%+v\n%s", status, sim.describe())
		}
		if acks := sim.attempts.acksOfTaskT(); len(acks) != 1 || acks[0].phase != string(v1alpha1.TaskFailed) {
			t.Errorf("%+v", acks)
		}
	})
}

func TestTemporaryRejectionCostsNothing(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.faults.setRejects(func(status *v1alpha1.TaskStatus) bool { return status.Phase.Final() })
		sim.submit("t", behavior{duration: 3 * time.Second})
		sim.advance(8 * time.Second)
		sim.faults.setRejects(nil)
		sim.advance(time.Minute)
		sim.assertCompleted(t, "t", 1)
	})
}

// A running attempt is not given up because its status cannot be written.
func TestRunningAttemptSurvivesRejections(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.faults.setRejects(func(status *v1alpha1.TaskStatus) bool { return status.Phase == v1alpha1.TaskRunning })
		sim.submit("t", behavior{duration: time.Minute})
		sim.advance(2 * time.Minute)
		sim.assertCompleted(t, "t", 1)
	})
}

// A failing API server is not a refusal: the result waits.
func TestServerErrorsAreNoRejections(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 3 * time.Second})
		sim.advance(2 * time.Second)
		sim.faults.setFailures(12, 0)
		sim.advance(5 * time.Minute)
		sim.assertCompleted(t, "t", 1)
	})
}
