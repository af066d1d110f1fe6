package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/test/invariant"
)

const second = time.Second

// Epochs: two of a leader, and two of the next.
const (
	firstEpoch            = 1<<32 | 1
	secondEpoch           = 1<<32 | 2
	firstEpochOfNextTerm  = 2<<32 | 1
	secondEpochOfNextTerm = 2<<32 | 2
)

func startEvent(at time.Duration, process, run string, epoch int64) Event {
	return Event{At: at, Kind: eventStarted, Process: process, Task: "t", UID: "u", Epoch: epoch, Run: run}
}

func endEvent(at time.Duration, process, run string, epoch int64, outcome string) Event {
	return Event{At: at, Kind: eventEnded, Process: process, Task: "t", UID: "u", Epoch: epoch, Run: run, Outcome: outcome}
}

// eventOf is an event of process a.
func eventOf(at time.Duration, kind string) Event { return Event{At: at, Kind: kind, Process: "a"} }

// acknowledgeEvent is that of the result of the first attempt.
func acknowledgeEvent(at time.Duration) Event {
	return Event{At: at, Kind: eventAcknowledged, Process: "a", Task: "t", UID: "u", Epoch: firstEpoch}
}

func storeEvent(at time.Duration, epoch int64, held StoredTask) Event {
	return Event{At: at, Kind: eventStored, Task: "t", UID: "u", Epoch: epoch, Stored: &held}
}

// completedEvent is the end of task t.
func completedEvent(at time.Duration, epoch int64, run string) Event {
	return storeEvent(at, epoch, StoredTask{Version: uint64(at), Phase: "Completed", Result: run})
}

// movedEvent is the end of task t after its first attempt was lost.
func movedEvent(at time.Duration, epoch int64, run string) Event {
	return storeEvent(at, epoch, StoredTask{Version: uint64(at), Phase: "Completed", Result: run, Reassignments: 1})
}

func TestCheckJournal(t *testing.T) {
	for reason, c := range map[string]struct {
		events []Event
		want   []invariant.Invariant
	}{
		"one attempt": {[]Event{startEvent(1*second, "a", "x", firstEpoch), endEvent(2*second, "a", "x", firstEpoch, outcomeSucceeded),
			completedEvent(3*second, firstEpoch, "x"), acknowledgeEvent(4 * second)}, nil},
		"one after another": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), eventOf(2*second, eventExited), startEvent(3*second, "b", "y", secondEpoch),
			endEvent(4*second, "b", "y", secondEpoch, outcomeSucceeded), movedEvent(5*second, secondEpoch, "y"),
		}, nil},
		"two at a time": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), startEvent(3*second, "b", "y", secondEpoch),
			endEvent(4*second, "b", "y", secondEpoch, outcomeSucceeded), movedEvent(5*second, secondEpoch, "y"),
		}, []invariant.Invariant{invariant.TwoOwners, invariant.FinalWhileRunning}},
		"one of them is suspended": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), eventOf(2*second, eventSuspended), startEvent(3*second, "b", "y", secondEpoch),
			endEvent(4*second, "b", "y", secondEpoch, outcomeSucceeded), movedEvent(5*second, secondEpoch, "y"),
		}, nil},
		"one of them is resumed, and ends in time": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), eventOf(2*second, eventSuspended), startEvent(3*second, "b", "y", secondEpoch),
			eventOf(4*second, eventResumed),
			endEvent(5*second, "a", "x", firstEpoch, outcomeStopped), endEvent(9*second, "b", "y", secondEpoch, outcomeSucceeded),
			movedEvent(10*second, secondEpoch, "y"),
		}, nil},
		"one of them is resumed, and goes on": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), eventOf(2*second, eventSuspended), startEvent(3*second, "b", "y", secondEpoch),
			eventOf(4*second, eventResumed),
			endEvent(7*second, "a", "x", firstEpoch, outcomeStopped), endEvent(9*second, "b", "y", secondEpoch, outcomeSucceeded),
			movedEvent(10*second, secondEpoch, "y"),
		}, []invariant.Invariant{invariant.TwoOwners}},
		"one of them is resumed, and suspended again": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), eventOf(2*second, eventSuspended), startEvent(3*second, "b", "y", secondEpoch),
			eventOf(4*second, eventResumed), eventOf(5*second, eventSuspended),
			endEvent(9*second, "b", "y", secondEpoch, outcomeSucceeded), movedEvent(10*second, secondEpoch, "y"),
		}, nil},
		"an older epoch": {[]Event{
			startEvent(1*second, "a", "x", secondEpoch), endEvent(2*second, "a", "x", secondEpoch, outcomeStopped),
			startEvent(3*second, "b", "y", firstEpoch),
			endEvent(4*second, "b", "y", firstEpoch, outcomeSucceeded), movedEvent(5*second, firstEpoch, "y"),
		}, []invariant.Invariant{invariant.EpochNotNewer}},
		"a start after the end": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), endEvent(2*second, "a", "x", firstEpoch, outcomeSucceeded),
			completedEvent(3*second, firstEpoch, "x"), startEvent(4*second, "b", "y", secondEpoch),
		}, []invariant.Invariant{invariant.StartAfterFinal}},
		"a result without an attempt": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), endEvent(2*second, "a", "x", firstEpoch, outcomeSucceeded),
			completedEvent(3*second, firstEpoch, "z"),
		}, []invariant.Invariant{invariant.ResultUnknown}},
		"a result under another epoch": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), endEvent(2*second, "a", "x", firstEpoch, outcomeSucceeded),
			completedEvent(3*second, secondEpoch, "x"),
		}, []invariant.Invariant{invariant.ResultUnknown}},
		"a result that is lost": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), endEvent(2*second, "a", "x", firstEpoch, outcomeSucceeded), acknowledgeEvent(3 * second),
			startEvent(9*second, "b", "y", secondEpoch), endEvent(10*second, "b", "y", secondEpoch, outcomeSucceeded),
			movedEvent(11*second, secondEpoch, "y"),
		}, []invariant.Invariant{invariant.AcknowledgedNotStored}},
		"a result that is not needed any more, as is stored": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), endEvent(2*second, "a", "x", firstEpoch, outcomeSucceeded),
			storeEvent(3*second, secondEpoch, StoredTask{Version: 1, Assigned: true}), acknowledgeEvent(4 * second),
			startEvent(9*second, "b", "y", secondEpoch), endEvent(10*second, "b", "y", secondEpoch, outcomeSucceeded),
			movedEvent(11*second, secondEpoch, "y"),
		}, nil},
		"a task without an end": {[]Event{startEvent(1*second, "a", "x", firstEpoch), endEvent(2*second, "a", "x", firstEpoch, outcomeSucceeded)},
			[]invariant.Invariant{invariant.NeverFinished}},
		"a retry": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), endEvent(2*second, "a", "x", firstEpoch, outcomeFailed),
			startEvent(3*second, "a", "y", secondEpoch), endEvent(4*second, "a", "y", secondEpoch, outcomeSucceeded),
			storeEvent(5*second, secondEpoch, StoredTask{Version: 9, Phase: "Completed", Result: "y", Retries: 1}),
		}, nil},
		"a retry that is not counted": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), endEvent(2*second, "a", "x", firstEpoch, outcomeFailed),
			startEvent(3*second, "a", "y", secondEpoch), endEvent(4*second, "a", "y", secondEpoch, outcomeSucceeded),
			completedEvent(5*second, secondEpoch, "y"),
		}, []invariant.Invariant{invariant.CounterWrong}},
		"a retry that the next leader knows nothing of": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), endEvent(2*second, "a", "x", firstEpoch, outcomeFailed),
			startEvent(3*second, "a", "y", firstEpochOfNextTerm), endEvent(4*second, "a", "y", firstEpochOfNextTerm, outcomeSucceeded),
			completedEvent(5*second, firstEpochOfNextTerm, "y"),
		}, nil},
		"a failure that is counted as a loss": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), endEvent(2*second, "a", "x", firstEpoch, outcomeFailed),
			startEvent(3*second, "a", "y", secondEpoch), endEvent(4*second, "a", "y", secondEpoch, outcomeSucceeded),
			movedEvent(5*second, secondEpoch, "y"),
		}, nil},
		"a failure that ends the task": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), endEvent(2*second, "a", "x", firstEpoch, outcomeFailed),
			storeEvent(5*second, firstEpoch, StoredTask{Version: 9, Phase: "Failed", Reason: "CommandFailed"}),
		}, nil},
		"a loss that is counted twice": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), eventOf(2*second, eventExited),
			storeEvent(3*second, firstEpoch, StoredTask{Version: 1, Reassignments: 1}),
			startEvent(4*second, "b", "y", firstEpochOfNextTerm), endEvent(5*second, "b", "y", firstEpochOfNextTerm, outcomeSucceeded),
			storeEvent(6*second, firstEpochOfNextTerm, StoredTask{Version: 9, Phase: "Completed", Result: "y", Reassignments: 2}),
		}, []invariant.Invariant{invariant.CounterWrong}},
		"a loss of what was never started": {[]Event{
			storeEvent(1*second, firstEpoch, StoredTask{Version: 1, Assigned: true}),
			storeEvent(2*second, firstEpoch, StoredTask{Version: 2, Reassignments: 1}),
			startEvent(3*second, "b", "y", secondEpoch), endEvent(4*second, "b", "y", secondEpoch, outcomeSucceeded),
			movedEvent(5*second, secondEpoch, "y"),
		}, nil},
		"a success of what was counted as lost": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), storeEvent(3*second, firstEpoch, StoredTask{Version: 1, Reassignments: 1}),
			endEvent(4*second, "a", "x", firstEpoch, outcomeSucceeded), movedEvent(5*second, firstEpoch, "x"),
		}, nil},
		"six losses": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), eventOf(2*second, eventExited),
			storeEvent(3*second, firstEpoch, StoredTask{Version: 1, Phase: "Failed", Reason: "TooManyReassignments", Reassignments: 1}),
		}, nil},
		"a retry that was no one": {[]Event{
			startEvent(1*second, "a", "x", firstEpoch), endEvent(2*second, "a", "x", firstEpoch, outcomeFailed),
			startEvent(3*second, "a", "y", firstEpochOfNextTerm), endEvent(4*second, "a", "y", firstEpochOfNextTerm, outcomeSucceeded),
			storeEvent(5*second, firstEpochOfNextTerm, StoredTask{Version: 9, Phase: "Completed", Result: "y", Retries: 2}),
		}, []invariant.Invariant{invariant.CounterWrong}},
	} {
		var got []invariant.Invariant
		for _, broken := range checkJournal(c.events, 1).Violations {
			got = append(got, broken.Invariant)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", reason, got, c.want)
		}
	}
}

// The other agent has not started it when the result is acknowledged; but what the leader gave out after it has started somewhere.
func TestSupersededResultIsNotLost(t *testing.T) {
	events := append(otherTaskEvents(3*second),
		startEvent(1*second, "a", "x", firstEpoch), endEvent(2*second, "a", "x", firstEpoch, outcomeSucceeded), acknowledgeEvent(5*second),
		startEvent(9*second, "b", "y", firstEpochOfNextTerm), endEvent(10*second, "b", "y", firstEpochOfNextTerm, outcomeSucceeded),
		completedEvent(11*second, firstEpochOfNextTerm, "y"))
	if got := checkJournal(events, 2); len(got.Violations) > 0 {
		t.Errorf("got %v", got.Violations)
	}
}

// A former leader's write is late: the task is final, and an assignment of the next leader is under way.
func TestStartAssignedBeforeTheEndIsNoViolation(t *testing.T) {
	events := append(otherTaskEvents(3*second),
		startEvent(1*second, "a", "x", firstEpoch), endEvent(2*second, "a", "x", firstEpoch, outcomeSucceeded),
		completedEvent(5*second, firstEpoch, "x"),
		startEvent(9*second, "b", "y", firstEpochOfNextTerm), endEvent(10*second, "b", "y", firstEpochOfNextTerm, outcomeSucceeded))
	if got := checkJournal(events, 2); len(got.Violations) > 0 {
		t.Errorf("got %v", got.Violations)
	}
}

// otherTaskEvents is the life of another task.
func otherTaskEvents(at time.Duration) []Event {
	events := []Event{startEvent(at, "c", "o", secondEpochOfNextTerm), endEvent(at+1, "c", "o", secondEpochOfNextTerm, outcomeSucceeded),
		completedEvent(at+2, secondEpochOfNextTerm, "o")}
	for n := range events {
		events[n].Task, events[n].UID = "o", "o"
	}
	return events
}

func TestMissingTaskIsAViolation(t *testing.T) {
	if got := checkJournal(nil, 2).count(invariant.NeverFinished); got != 2 {
		t.Errorf("got %d", got)
	}
}

func TestARunWithTooFewAttemptsFails(t *testing.T) {
	for wanted, want := range map[int]string{
		0: "<nil>", 7: "<nil>", 8: "only 7 of 8 attempts were started in 1h0m0s: allow more time (DURATION) or ask for fewer (ATTEMPTS)",
	} {
		if got := fmt.Sprint(Verdict{Attempts: 7}.problem(options{attempts: wanted, duration: time.Hour})); got != want {
			t.Errorf("7 of %d attempts: got %q, want %q", wanted, got, want)
		}
	}
}

func TestSummary(t *testing.T) {
	verdict := Verdict{
		Attempts: 7, Restarted: 2, Faults: map[string]int{killAgent: 2, cutLink: 1}, Phases: map[string]int{"Completed": 5},
		Violations: []Violation{{Invariant: invariant.TwoOwners}, {Invariant: invariant.NeverFinished}, {Invariant: invariant.EpochNotNewer}},
	}
	want := "seed=9 faults=3 attempts=7 overlaps=1 lost=1 restarted=2 others=1 cut-link=1 kill-agent=2 Completed=5"
	if got := verdict.summary(9); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
