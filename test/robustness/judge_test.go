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
	first  = 1<<32 | 1
	next   = 1<<32 | 2
	later  = 2<<32 | 1
	latest = 2<<32 | 2
)

func start(at time.Duration, process, run string, epoch int64) Event {
	return Event{At: at, Kind: started, Process: process, Task: "t", UID: "u", Epoch: epoch, Run: run}
}

func end(at time.Duration, process, run string, epoch int64, outcome string) Event {
	return Event{At: at, Kind: ended, Process: process, Task: "t", UID: "u", Epoch: epoch, Run: run, Outcome: outcome}
}

// happens is an event of process a.
func happens(at time.Duration, kind string) Event { return Event{At: at, Kind: kind, Process: "a"} }

// acknowledgement is that of the result of the first attempt.
func acknowledgement(at time.Duration) Event {
	return Event{At: at, Kind: acknowledged, Process: "a", Task: "t", UID: "u", Epoch: first}
}

func store(at time.Duration, epoch int64, held StoredTask) Event {
	return Event{At: at, Kind: stored, Task: "t", UID: "u", Epoch: epoch, Stored: &held}
}

// completed is the end of task t.
func completed(at time.Duration, epoch int64, run string) Event {
	return store(at, epoch, StoredTask{Version: uint64(at), Phase: "Completed", Result: run})
}

// moved is the end of task t after its first attempt was lost.
func moved(at time.Duration, epoch int64, run string) Event {
	return store(at, epoch, StoredTask{Version: uint64(at), Phase: "Completed", Result: run, Reassignments: 1})
}

func TestJudge(t *testing.T) {
	for reason, c := range map[string]struct {
		events []Event
		want   []invariant.Invariant
	}{
		"one attempt": {[]Event{start(1*second, "a", "x", first), end(2*second, "a", "x", first, succeeded), completed(3*second, first, "x"), acknowledgement(4 * second)}, nil},
		"one after another": {[]Event{
			start(1*second, "a", "x", first), happens(2*second, exited), start(3*second, "b", "y", next), end(4*second, "b", "y", next, succeeded), moved(5*second, next, "y"),
		}, nil},
		"two at a time": {[]Event{
			start(1*second, "a", "x", first), start(3*second, "b", "y", next), end(4*second, "b", "y", next, succeeded), moved(5*second, next, "y"),
		}, []invariant.Invariant{invariant.TwoOwners, invariant.FinalWhileRunning}},
		"one of them is suspended": {[]Event{
			start(1*second, "a", "x", first), happens(2*second, suspended), start(3*second, "b", "y", next), end(4*second, "b", "y", next, succeeded), moved(5*second, next, "y"),
		}, nil},
		"one of them is resumed, and ends in time": {[]Event{
			start(1*second, "a", "x", first), happens(2*second, suspended), start(3*second, "b", "y", next), happens(4*second, resumed),
			end(5*second, "a", "x", first, stopped), end(9*second, "b", "y", next, succeeded), moved(10*second, next, "y"),
		}, nil},
		"one of them is resumed, and goes on": {[]Event{
			start(1*second, "a", "x", first), happens(2*second, suspended), start(3*second, "b", "y", next), happens(4*second, resumed),
			end(7*second, "a", "x", first, stopped), end(9*second, "b", "y", next, succeeded), moved(10*second, next, "y"),
		}, []invariant.Invariant{invariant.TwoOwners}},
		"one of them is resumed, and suspended again": {[]Event{
			start(1*second, "a", "x", first), happens(2*second, suspended), start(3*second, "b", "y", next), happens(4*second, resumed), happens(5*second, suspended),
			end(9*second, "b", "y", next, succeeded), moved(10*second, next, "y"),
		}, nil},
		"an older epoch": {[]Event{
			start(1*second, "a", "x", next), end(2*second, "a", "x", next, stopped), start(3*second, "b", "y", first),
			end(4*second, "b", "y", first, succeeded), moved(5*second, first, "y"),
		}, []invariant.Invariant{invariant.EpochNotNewer}},
		"a start after the end": {[]Event{
			start(1*second, "a", "x", first), end(2*second, "a", "x", first, succeeded), completed(3*second, first, "x"), start(4*second, "b", "y", next),
		}, []invariant.Invariant{invariant.StartAfterFinal}},
		"a result without an attempt": {[]Event{
			start(1*second, "a", "x", first), end(2*second, "a", "x", first, succeeded), completed(3*second, first, "z"),
		}, []invariant.Invariant{invariant.ResultUnknown}},
		"a result under another epoch": {[]Event{
			start(1*second, "a", "x", first), end(2*second, "a", "x", first, succeeded), completed(3*second, next, "x"),
		}, []invariant.Invariant{invariant.ResultUnknown}},
		"a result that is lost": {[]Event{
			start(1*second, "a", "x", first), end(2*second, "a", "x", first, succeeded), acknowledgement(3 * second),
			start(9*second, "b", "y", next), end(10*second, "b", "y", next, succeeded), moved(11*second, next, "y"),
		}, []invariant.Invariant{invariant.AcknowledgedNotStored}},
		"a result that is not needed any more, as is stored": {[]Event{
			start(1*second, "a", "x", first), end(2*second, "a", "x", first, succeeded), store(3*second, next, StoredTask{Version: 1, Assigned: true}), acknowledgement(4 * second),
			start(9*second, "b", "y", next), end(10*second, "b", "y", next, succeeded), moved(11*second, next, "y"),
		}, nil},
		"a task without an end": {[]Event{start(1*second, "a", "x", first), end(2*second, "a", "x", first, succeeded)}, []invariant.Invariant{invariant.NeverFinished}},
		"a retry": {[]Event{
			start(1*second, "a", "x", first), end(2*second, "a", "x", first, failed), start(3*second, "a", "y", next), end(4*second, "a", "y", next, succeeded),
			store(5*second, next, StoredTask{Version: 9, Phase: "Completed", Result: "y", Retries: 1}),
		}, nil},
		"a retry that is not counted": {[]Event{
			start(1*second, "a", "x", first), end(2*second, "a", "x", first, failed), start(3*second, "a", "y", next), end(4*second, "a", "y", next, succeeded),
			completed(5*second, next, "y"),
		}, []invariant.Invariant{invariant.CounterWrong}},
		"a retry that the next leader knows nothing of": {[]Event{
			start(1*second, "a", "x", first), end(2*second, "a", "x", first, failed), start(3*second, "a", "y", later), end(4*second, "a", "y", later, succeeded),
			completed(5*second, later, "y"),
		}, nil},
		"a failure that is counted as a loss": {[]Event{
			start(1*second, "a", "x", first), end(2*second, "a", "x", first, failed), start(3*second, "a", "y", next), end(4*second, "a", "y", next, succeeded),
			moved(5*second, next, "y"),
		}, nil},
		"a failure that ends the task": {[]Event{
			start(1*second, "a", "x", first), end(2*second, "a", "x", first, failed),
			store(5*second, first, StoredTask{Version: 9, Phase: "Failed", Reason: "CommandFailed"}),
		}, nil},
		"a loss that is counted twice": {[]Event{
			start(1*second, "a", "x", first), happens(2*second, exited), store(3*second, first, StoredTask{Version: 1, Reassignments: 1}),
			start(4*second, "b", "y", later), end(5*second, "b", "y", later, succeeded),
			store(6*second, later, StoredTask{Version: 9, Phase: "Completed", Result: "y", Reassignments: 2}),
		}, []invariant.Invariant{invariant.CounterWrong}},
		"a loss of what was never started": {[]Event{
			store(1*second, first, StoredTask{Version: 1, Assigned: true}), store(2*second, first, StoredTask{Version: 2, Reassignments: 1}),
			start(3*second, "b", "y", next), end(4*second, "b", "y", next, succeeded), moved(5*second, next, "y"),
		}, nil},
		"a success of what was counted as lost": {[]Event{
			start(1*second, "a", "x", first), store(3*second, first, StoredTask{Version: 1, Reassignments: 1}), end(4*second, "a", "x", first, succeeded), moved(5*second, first, "x"),
		}, nil},
		"six losses": {[]Event{
			start(1*second, "a", "x", first), happens(2*second, exited), store(3*second, first, StoredTask{Version: 1, Phase: "Failed", Reason: "TooManyReassignments", Reassignments: 1}),
		}, nil},
		"a retry that was no one": {[]Event{
			start(1*second, "a", "x", first), end(2*second, "a", "x", first, failed), start(3*second, "a", "y", later), end(4*second, "a", "y", later, succeeded),
			store(5*second, later, StoredTask{Version: 9, Phase: "Completed", Result: "y", Retries: 2}),
		}, []invariant.Invariant{invariant.CounterWrong}},
	} {
		var got []invariant.Invariant
		for _, broken := range judgeJournal(c.events, 1).Violations {
			got = append(got, broken.Invariant)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", reason, got, c.want)
		}
	}
}

// The other agent has not started it when the result is acknowledged; but what the leader gave out after it has started somewhere.
func TestAResultThatWasSupersededIsNotLost(t *testing.T) {
	events := append(another(3*second),
		start(1*second, "a", "x", first), end(2*second, "a", "x", first, succeeded), acknowledgement(5*second),
		start(9*second, "b", "y", later), end(10*second, "b", "y", later, succeeded), completed(11*second, later, "y"))
	if got := judgeJournal(events, 2); len(got.Violations) > 0 {
		t.Errorf("got %v", got.Violations)
	}
}

// A former leader's write is late: the task is final, and an assignment of the next leader is under way.
func TestAStartThatWasGivenOutBeforeTheEndIsNoViolation(t *testing.T) {
	events := append(another(3*second),
		start(1*second, "a", "x", first), end(2*second, "a", "x", first, succeeded), completed(5*second, first, "x"),
		start(9*second, "b", "y", later), end(10*second, "b", "y", later, succeeded))
	if got := judgeJournal(events, 2); len(got.Violations) > 0 {
		t.Errorf("got %v", got.Violations)
	}
}

// another is the life of another task.
func another(at time.Duration) []Event {
	events := []Event{start(at, "c", "o", latest), end(at+1, "c", "o", latest, succeeded), completed(at+2, latest, "o")}
	for n := range events {
		events[n].Task, events[n].UID = "o", "o"
	}
	return events
}

func TestEveryTaskThatWasSubmittedIsThere(t *testing.T) {
	if got := judgeJournal(nil, 2).count(invariant.NeverFinished); got != 2 {
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
