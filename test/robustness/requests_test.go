package main

import (
	"slices"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/test/invariant"
)

// A verdictCase is a journal, and the invariants that it breaks.
type verdictCase struct {
	events []Event
	want   []invariant.Invariant
}

func checkVerdicts(t *testing.T, cases map[string]verdictCase) {
	t.Helper()
	for reason, c := range cases {
		var got []invariant.Invariant
		for _, broken := range judgeJournal(c.events, 1).Violations {
			got = append(got, broken.Invariant)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", reason, got, c.want)
		}
	}
}

// create is the request that task t begins with.
func create(limits Request) Event {
	limits.Desired = v1alpha1.TaskRun
	return Event{At: 0, Kind: requested, Task: "t", Request: &limits}
}

func desire(at time.Duration, desired v1alpha1.TaskDesire) Event {
	return Event{At: at, Kind: requested, Task: "t", Request: &Request{Desired: desired}}
}

func elect(at time.Duration, operator string, term int64) Event {
	return Event{At: at, Kind: elected, Process: operator + "_id", Epoch: term << 32}
}

// by names the operator that has stored a Task.
func by(operator string, event Event) Event {
	event.Note = operator
	return event
}

func cancelled(at time.Duration, epoch int64) Event {
	return store(at, epoch, StoredTask{Version: uint64(at), Phase: "Cancelled", Reason: "Cancelled"})
}

// timedOut is the end of task t, which was given to no agent.
func timedOut(at time.Duration) Event {
	return store(at, 0, StoredTask{Version: uint64(at), Phase: "Failed", Reason: "TimedOut"})
}

func retried(at time.Duration) Event {
	return store(at, first, StoredTask{Version: uint64(at), Reason: "RetryBackoff", Retries: 1})
}

// suspendedTask is task t, which waits because a user has suspended it.
func suspendedTask(at time.Duration, epoch int64) Event {
	return store(at, epoch, StoredTask{Version: uint64(at), Reason: "Suspended"})
}

func TestRequestsAreJudged(t *testing.T) {
	unasked := []invariant.Invariant{invariant.StoppedUnasked}
	checkVerdicts(t, map[string]verdictCase{
		"cancelled while it waits": {[]Event{create(Request{}), desire(1*second, v1alpha1.TaskCancel), cancelled(2*second, 0)}, nil},
		"cancelled while it runs": {[]Event{
			create(Request{}), start(1*second, "a", "x", first), desire(2*second, v1alpha1.TaskCancel), end(3*second, "a", "x", first, stopped),
			cancelled(4*second, first),
		}, nil},
		"cancelled without a request": {[]Event{create(Request{}), cancelled(2*second, 0)}, unasked},
		"cancelled too early":         {[]Event{create(Request{}), cancelled(2*second, 0), desire(3*second, v1alpha1.TaskCancel)}, unasked},
		"suspended, then cancelled": {[]Event{
			create(Request{}), desire(1*second, v1alpha1.TaskSuspend), suspendedTask(2*second, 0),
			desire(3*second, v1alpha1.TaskCancel), cancelled(4*second, 0),
		}, nil},
		"suspended without a request": {[]Event{
			create(Request{}), suspendedTask(2*second, 0), desire(3*second, v1alpha1.TaskCancel), cancelled(4*second, 0),
		}, unasked},
		"timed out in the queue": {[]Event{create(Request{QueueSeconds: 5}), timedOut(5 * second)}, nil},
		"timed out":              {[]Event{create(Request{TotalSeconds: 5}), timedOut(5 * second)}, nil},
		"timed out too early":    {[]Event{create(Request{TotalSeconds: 5}), timedOut(3 * second)}, unasked},
		"timed out at no limit":  {[]Event{create(Request{}), timedOut(3 * second)}, unasked},
	})
}

func TestNothingRunsWhenATaskBecomesFinal(t *testing.T) {
	cancel := desire(2*second, v1alpha1.TaskCancel)
	checkVerdicts(t, map[string]verdictCase{
		"it still runs": {[]Event{
			create(Request{}), start(1*second, "a", "x", first), cancel, cancelled(3*second, first), end(4*second, "a", "x", first, stopped),
		}, []invariant.Invariant{invariant.FinalWhileRunning}},
		"its process stands still": {[]Event{
			create(Request{}), start(1*second, "a", "x", first), happens(2*second, suspended), cancel, cancelled(3*second, first),
		}, nil},
		"its process is dead": {[]Event{
			create(Request{}), start(1*second, "a", "x", first), happens(2*second, exited), cancel, cancelled(3*second, first),
		}, nil},
		"the next leader has given it out": {[]Event{
			elect(0, "operator-0", 1), elect(1*second, "operator-1", 2), start(2*second, "a", "x", first), end(3*second, "a", "x", first, succeeded),
			start(4*second, "b", "y", later), by("operator-0", completed(5*second, first, "x")), end(6*second, "b", "y", later, succeeded),
		}, nil},
		"the former leader has given it out": {[]Event{
			create(Request{}), elect(0, "operator-0", 1), start(1*second, "a", "x", first), elect(2*second, "operator-1", 2), cancel,
			by("operator-1", cancelled(3*second, 0)), end(6*second, "a", "x", first, stopped),
		}, []invariant.Invariant{invariant.FinalWhileRunning}},
	})
}

// The assignment is under way when the task becomes final: another task, which was given out after it, has started.
func TestAnAssignmentOfTheFormerLeaderMustNotStartAfterTheEnd(t *testing.T) {
	journal := func(epoch int64) []Event {
		after := start(2*second, "c", "o", epoch+1)
		after.Task, after.UID = "o", "o"
		done := store(3*second, epoch+1, StoredTask{Version: 1, Phase: "Completed", Result: "o"})
		done.Task, done.UID = "o", "o"
		ends := end(2*second, "c", "o", epoch+1, succeeded)
		ends.Task, ends.UID = "o", "o"
		return []Event{
			create(Request{}), elect(0, "operator-0", 1), after, ends, done, desire(2*second, v1alpha1.TaskCancel), elect(3*second, "operator-1", 2),
			by("operator-1", cancelled(4*second, 0)), start(5*second, "a", "x", epoch), end(6*second, "a", "x", epoch, stopped),
		}
	}
	for epoch, want := range map[int64]int{first: 1, 3<<32 | 1: 0} {
		if got := judgeJournal(journal(epoch), 2).count(invariant.StartAfterFinal); got != want {
			t.Errorf("epoch %d.%d, cancelled by the leader of term 2: %d violations, want %d", epoch>>32, epoch&(1<<32-1), got, want)
		}
	}
}

func TestAcknowledgedFailuresAreJudged(t *testing.T) {
	again := []Event{start(9*second, "b", "y", next), end(10*second, "b", "y", next, succeeded)}
	finished := store(11*second, next, StoredTask{Version: 1 << 40, Phase: "Completed", Result: "y", Retries: 1})
	lost := []invariant.Invariant{invariant.AcknowledgedNotStored}
	attempt := func(outcome string, between ...Event) []Event {
		events := append([]Event{start(1*second, "a", "x", first), end(2*second, "a", "x", first, outcome)}, between...)
		return append(append(events, again...), finished)
	}
	assigned := func(epoch int64) Event { return store(3*second, epoch, StoredTask{Version: 1, Assigned: true}) }
	outage := Event{At: 2 * second, Kind: faulted, Note: killAPIServer + " agent=0"}
	checkVerdicts(t, map[string]verdictCase{
		"stored":                  {attempt(failed, retried(3*second), acknowledgement(4*second)), nil},
		"stored nowhere":          {attempt(failed, acknowledgement(4*second)), lost},
		"stored a moment later":   {attempt(failed, acknowledgement(3*second), retried(3*second+second/10)), lost},
		"stored as assigned only": {attempt(failed, assigned(first), acknowledgement(4*second)), lost},
		"superseded":              {attempt(failed, assigned(next), acknowledgement(4*second)), nil},
		"the API server was away": {attempt(failed, outage, acknowledgement(3*second), retried(3*second+second/10)), nil},
		"it had to stop":          {attempt(stopped, acknowledgement(4*second)), append(lost, invariant.CounterWrong)},
	})
}

func TestCountersOfStoppedAttempts(t *testing.T) {
	wrong := []invariant.Invariant{invariant.CounterWrong}
	twoAttempts := func(events ...Event) []Event {
		return append(events,
			start(1*second, "a", "x", first), end(2*second, "a", "x", first, stopped),
			start(5*second, "b", "y", next), end(6*second, "b", "y", next, succeeded))
	}
	suspend, retry := desire(second/2, v1alpha1.TaskSuspend), StoredTask{Version: 9, Phase: "Completed", Result: "y", Retries: 1}
	third := []Event{start(7*second, "a", "z", next+1), end(8*second, "a", "z", next+1, succeeded), completed(9*second, next+1, "z")}
	checkVerdicts(t, map[string]verdictCase{
		"a suspension counts nothing":     {twoAttempts(create(Request{}), suspend, completed(7*second, next, "y")), nil},
		"a suspension stops one attempt":  {append(twoAttempts(create(Request{}), suspend), third...), wrong},
		"a hand-back that is not counted": {twoAttempts(create(Request{}), completed(7*second, next, "y")), wrong},
		"a hand-back that the next leader knows nothing of": {twoAttempts(
			create(Request{}), elect(0, "operator-0", 1), elect(3*second, "operator-1", 2), by("operator-1", completed(7*second, next, "y"))), nil},
		"an attempt that ran for too long": {twoAttempts(create(Request{RunSeconds: 1}), store(7*second, next, retry)), nil},
		"an attempt that did not":          {twoAttempts(create(Request{RunSeconds: 3}), store(7*second, next, retry)), wrong},
		"cancelled after a retry": {[]Event{
			create(Request{}), start(1*second, "a", "x", first), end(2*second, "a", "x", first, failed), retried(3 * second),
			desire(4*second, v1alpha1.TaskCancel), store(5*second, first, StoredTask{Version: uint64(5 * second), Phase: "Cancelled", Retries: 1}),
		}, nil},
	})
}
