package main

import (
	"slices"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/test/invariant"
)

// A journalCase is a journal, and the invariants that it breaks.
type journalCase struct {
	events []Event
	want   []invariant.Invariant
}

func checkJournalCases(t *testing.T, cases map[string]journalCase) {
	t.Helper()
	for reason, c := range cases {
		var got []invariant.Invariant
		for _, broken := range checkJournal(c.events, 1).Violations {
			got = append(got, broken.Invariant)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", reason, got, c.want)
		}
	}
}

// createEvent is the request that task t begins with.
func createEvent(limits Request) Event {
	limits.Desired = v1alpha1.TaskRun
	return Event{At: 0, Kind: eventRequested, Task: "t", Request: &limits}
}

func desireEvent(at time.Duration, desired v1alpha1.TaskDesire) Event {
	return Event{At: at, Kind: eventRequested, Task: "t", Request: &Request{Desired: desired}}
}

func electEvent(at time.Duration, operator string, term int64) Event {
	return Event{At: at, Kind: eventElected, Process: operator + "_id", Epoch: term << 32}
}

// storedBy names the operator that has stored a Task.
func storedBy(operator string, event Event) Event {
	event.Note = operator
	return event
}

func cancelledEvent(at time.Duration, epoch int64) Event {
	return storeEvent(at, epoch, StoredTask{Version: uint64(at), Phase: "Cancelled", Reason: "Cancelled"})
}

// timedOutEvent is the end of task t, which was given to no agent.
func timedOutEvent(at time.Duration) Event {
	return storeEvent(at, 0, StoredTask{Version: uint64(at), Phase: "Failed", Reason: "TimedOut"})
}

func retriedEvent(at time.Duration) Event {
	return storeEvent(at, firstEpoch, StoredTask{Version: uint64(at), Reason: "RetryBackoff", Retries: 1})
}

// suspendedEvent is task t, which waits because a user has suspended it.
func suspendedEvent(at time.Duration, epoch int64) Event {
	return storeEvent(at, epoch, StoredTask{Version: uint64(at), Reason: "Suspended"})
}

func TestRequestsAreChecked(t *testing.T) {
	withoutRequest := []invariant.Invariant{invariant.StoppedWithoutRequest}
	checkJournalCases(t, map[string]journalCase{
		"cancelled while it waits": {[]Event{createEvent(Request{}), desireEvent(1*second, v1alpha1.TaskCancel), cancelledEvent(2*second, 0)},
			nil},
		"cancelled while it runs": {[]Event{
			createEvent(Request{}), startEvent(1*second, "a", "x", firstEpoch), desireEvent(2*second, v1alpha1.TaskCancel),
			endEvent(3*second, "a", "x", firstEpoch, outcomeStopped),
			cancelledEvent(4*second, firstEpoch),
		}, nil},
		"cancelled without a request": {[]Event{createEvent(Request{}), cancelledEvent(2*second, 0)}, withoutRequest},
		"cancelled too early": {[]Event{createEvent(Request{}), cancelledEvent(2*second, 0), desireEvent(3*second, v1alpha1.TaskCancel)},
			withoutRequest},
		"suspended, then cancelled": {[]Event{
			createEvent(Request{}), desireEvent(1*second, v1alpha1.TaskSuspend), suspendedEvent(2*second, 0),
			desireEvent(3*second, v1alpha1.TaskCancel), cancelledEvent(4*second, 0),
		}, nil},
		"suspended without a request": {[]Event{
			createEvent(Request{}), suspendedEvent(2*second, 0), desireEvent(3*second, v1alpha1.TaskCancel), cancelledEvent(4*second, 0),
		}, withoutRequest},
		"timed out in the queue": {[]Event{createEvent(Request{QueueSeconds: 5}), timedOutEvent(5 * second)}, nil},
		"timed out":              {[]Event{createEvent(Request{TotalSeconds: 5}), timedOutEvent(5 * second)}, nil},
		"timed out too early":    {[]Event{createEvent(Request{TotalSeconds: 5}), timedOutEvent(3 * second)}, withoutRequest},
		"timed out at no limit":  {[]Event{createEvent(Request{}), timedOutEvent(3 * second)}, withoutRequest},
	})
}

func TestNothingRunsWhenATaskBecomesFinal(t *testing.T) {
	cancel := desireEvent(2*second, v1alpha1.TaskCancel)
	checkJournalCases(t, map[string]journalCase{
		"it still runs": {[]Event{
			createEvent(Request{}), startEvent(1*second, "a", "x", firstEpoch), cancel, cancelledEvent(3*second, firstEpoch),
			endEvent(4*second, "a", "x", firstEpoch, outcomeStopped),
		}, []invariant.Invariant{invariant.FinalWhileRunning}},
		"its process stands still": {[]Event{
			createEvent(Request{}), startEvent(1*second, "a", "x", firstEpoch), eventOf(2*second, eventSuspended), cancel,
			cancelledEvent(3*second, firstEpoch),
		}, nil},
		"its process is dead": {[]Event{
			createEvent(Request{}), startEvent(1*second, "a", "x", firstEpoch), eventOf(2*second, eventExited), cancel,
			cancelledEvent(3*second, firstEpoch),
		}, nil},
		"the next leader has given it out": {[]Event{
			electEvent(0, "operator-0", 1), electEvent(1*second, "operator-1", 2), startEvent(2*second, "a", "x", firstEpoch),
			endEvent(3*second, "a", "x", firstEpoch, outcomeSucceeded),
			startEvent(4*second, "b", "y", firstEpochOfNextTerm), storedBy("operator-0", completedEvent(5*second, firstEpoch, "x")),
			endEvent(6*second, "b", "y", firstEpochOfNextTerm, outcomeSucceeded),
		}, nil},
		"the former leader has given it out": {[]Event{
			createEvent(Request{}), electEvent(0, "operator-0", 1), startEvent(1*second, "a", "x", firstEpoch),
			electEvent(2*second, "operator-1", 2), cancel,
			storedBy("operator-1", cancelledEvent(3*second, 0)), endEvent(6*second, "a", "x", firstEpoch, outcomeStopped),
		}, []invariant.Invariant{invariant.FinalWhileRunning}},
	})
}

// The assignment is under way when the task becomes final: another task, which was given out after it, has started.
func TestAnAssignmentOfTheFormerLeaderMustNotStartAfterTheEnd(t *testing.T) {
	journal := func(epoch int64) []Event {
		after := startEvent(2*second, "c", "o", epoch+1)
		after.Task, after.UID = "o", "o"
		done := storeEvent(3*second, epoch+1, StoredTask{Version: 1, Phase: "Completed", Result: "o"})
		done.Task, done.UID = "o", "o"
		ends := endEvent(2*second, "c", "o", epoch+1, outcomeSucceeded)
		ends.Task, ends.UID = "o", "o"
		return []Event{
			createEvent(Request{}), electEvent(0, "operator-0", 1), after, ends, done, desireEvent(2*second, v1alpha1.TaskCancel),
			electEvent(3*second, "operator-1", 2),
			storedBy("operator-1", cancelledEvent(4*second, 0)), startEvent(5*second, "a", "x", epoch),
			endEvent(6*second, "a", "x", epoch, outcomeStopped),
		}
	}
	for epoch, want := range map[int64]int{firstEpoch: 1, 3<<32 | 1: 0} {
		if got := checkJournal(journal(epoch), 2).count(invariant.StartAfterFinal); got != want {
			t.Errorf("epoch %d.%d, cancelled by the leader of term 2: %d violations, want %d", epoch>>32, epoch&(1<<32-1), got, want)
		}
	}
}

func TestAcknowledgedFailuresAreChecked(t *testing.T) {
	again := []Event{startEvent(9*second, "b", "y", secondEpoch), endEvent(10*second, "b", "y", secondEpoch, outcomeSucceeded)}
	finished := storeEvent(11*second, secondEpoch, StoredTask{Version: 1 << 40, Phase: "Completed", Result: "y", Retries: 1})
	lost := []invariant.Invariant{invariant.AcknowledgedNotStored}
	attempt := func(outcome string, between ...Event) []Event {
		events := append([]Event{startEvent(1*second, "a", "x", firstEpoch), endEvent(2*second, "a", "x", firstEpoch, outcome)}, between...)
		return append(append(events, again...), finished)
	}
	assigned := func(epoch int64) Event { return storeEvent(3*second, epoch, StoredTask{Version: 1, Assigned: true}) }
	outage := Event{At: 2 * second, Kind: eventFault, Note: killAPIServer + " agent=0"}
	checkJournalCases(t, map[string]journalCase{
		"stored":                  {attempt(outcomeFailed, retriedEvent(3*second), acknowledgeEvent(4*second)), nil},
		"stored nowhere":          {attempt(outcomeFailed, acknowledgeEvent(4*second)), lost},
		"stored a moment later":   {attempt(outcomeFailed, acknowledgeEvent(3*second), retriedEvent(3*second+second/10)), lost},
		"stored as assigned only": {attempt(outcomeFailed, assigned(firstEpoch), acknowledgeEvent(4*second)), lost},
		"superseded":              {attempt(outcomeFailed, assigned(secondEpoch), acknowledgeEvent(4*second)), nil},
		"the API server was away": {attempt(outcomeFailed, outage, acknowledgeEvent(3*second), retriedEvent(3*second+second/10)), nil},
		"it had to stop":          {attempt(outcomeStopped, acknowledgeEvent(4*second)), append(lost, invariant.CounterWrong)},
	})
}

func TestCountersOfStoppedAttempts(t *testing.T) {
	wrong := []invariant.Invariant{invariant.CounterWrong}
	twoAttempts := func(events ...Event) []Event {
		return append(events,
			startEvent(1*second, "a", "x", firstEpoch), endEvent(2*second, "a", "x", firstEpoch, outcomeStopped),
			startEvent(5*second, "b", "y", secondEpoch), endEvent(6*second, "b", "y", secondEpoch, outcomeSucceeded))
	}
	suspend, retry := desireEvent(second/2, v1alpha1.TaskSuspend), StoredTask{Version: 9, Phase: "Completed", Result: "y", Retries: 1}
	third := []Event{startEvent(7*second, "a", "z", secondEpoch+1), endEvent(8*second, "a", "z", secondEpoch+1, outcomeSucceeded),
		completedEvent(9*second, secondEpoch+1, "z")}
	checkJournalCases(t, map[string]journalCase{
		"a suspension counts nothing":     {twoAttempts(createEvent(Request{}), suspend, completedEvent(7*second, secondEpoch, "y")), nil},
		"a suspension stops one attempt":  {append(twoAttempts(createEvent(Request{}), suspend), third...), wrong},
		"a hand-back that is not counted": {twoAttempts(createEvent(Request{}), completedEvent(7*second, secondEpoch, "y")), wrong},
		"a hand-back that the next leader knows nothing of": {twoAttempts(
			createEvent(Request{}), electEvent(0, "operator-0", 1), electEvent(3*second, "operator-1", 2),
			storedBy("operator-1", completedEvent(7*second, secondEpoch, "y"))), nil},
		"an attempt that ran for too long": {twoAttempts(createEvent(Request{RunSeconds: 1}), storeEvent(7*second, secondEpoch, retry)), nil},
		"an attempt that did not":          {twoAttempts(createEvent(Request{RunSeconds: 3}), storeEvent(7*second, secondEpoch, retry)), wrong},
		"cancelled after a retry": {[]Event{
			createEvent(Request{}), startEvent(1*second, "a", "x", firstEpoch), endEvent(2*second, "a", "x", firstEpoch, outcomeFailed),
			retriedEvent(3 * second),
			desireEvent(4*second, v1alpha1.TaskCancel), storeEvent(5*second, firstEpoch,
				StoredTask{Version: uint64(5 * second), Phase: "Cancelled", Retries: 1}),
		}, nil},
	})
}
