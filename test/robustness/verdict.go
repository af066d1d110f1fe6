package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/swarm-io/swarm-operator/test/invariant"
)

// A Violation is an invariant that was broken, and by what.
type Violation struct {
	Invariant invariant.Invariant
	Task      string
	At        Event
}

// A Verdict is the result of judging a journal.
type Verdict struct {
	Violations []Violation
	Attempts   int
	Restarted  int // attempts that were not the first of their task
	Faults     map[string]int
	Phases     map[string]int // of tasks, with the reason of failed ones
}

func (v Verdict) count(kinds ...invariant.Invariant) (total int) {
	for _, one := range v.Violations {
		if slices.Contains(kinds, one.Invariant) {
			total++
		}
	}
	return total
}

// summary is the line that a run ends with.
func (v Verdict) summary(seed uint64) string {
	faults := 0
	for _, count := range v.Faults {
		faults += count
	}
	overlaps, lost := v.count(invariant.TwoOwners), v.count(invariant.AcknowledgedNotStored, invariant.NeverFinished)
	var text strings.Builder
	fmt.Fprintf(&text, "seed=%d faults=%d attempts=%d overlaps=%d lost=%d restarted=%d others=%d",
		seed, faults, v.Attempts, overlaps, lost, v.Restarted, len(v.Violations)-overlaps-lost)
	for _, counts := range []map[string]int{v.Faults, v.Phases} {
		for _, kind := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&text, " %s=%d", kind, counts[kind])
		}
	}
	return text.String()
}

// problem is why a run has failed.
func (v Verdict) problem(o options) error {
	switch {
	case len(v.Violations) > 0:
		return fmt.Errorf("%d invariants were broken, see %s", len(v.Violations), o.journal)
	case v.Attempts < o.attempts:
		return fmt.Errorf("only %d of %d attempts were started in %s: allow more time (DURATION) or ask for fewer (ATTEMPTS)", v.Attempts,
			o.attempts, o.duration)
	}
	if kind, missing := missingFault(v.Faults, o.faults); missing {
		return fmt.Errorf("%s happened only %d of %d times in %s: allow more time (DURATION) or ask for fewer (FAULTS)", kind, v.Faults[kind],
			o.faults, o.duration)
	}
	return nil
}

// mostExplained is how many violations are printed with all that happened.
const mostExplained = 10

// explain prints, for each violation, all that happened to the task, to the processes that ran it, and to leaders.
func explain(verdict Verdict, events []Event) {
	for _, violation := range verdict.Violations[:min(len(verdict.Violations), mostExplained)] {
		fmt.Printf("%s: %s\n  at %s\n", violation.Invariant, violation.Task, violation.At)
		processes := map[string]bool{}
		for _, event := range events {
			if event.Task == violation.Task && event.Process != "" {
				processes[event.Process] = true
			}
		}
		for _, event := range events {
			if event.Task == violation.Task || event.Task == "" && (processes[event.Process] || event.isAboutLeader()) {
				fmt.Println("   ", event)
			}
		}
	}
}
