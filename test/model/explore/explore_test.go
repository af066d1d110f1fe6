package explore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/swarm-io/swarm-operator/test/model/explore"
)

// A jug model: two jugs of 3 and 5 liters can be filled, emptied and poured into each other. Measuring 4 liters is the violation.
type jugs struct{}

type levels struct{ small, large int }

const (
	fill uint8 = iota
	empty
	pour
)

func (jugs) Next(l levels, emit func(explore.Step, levels)) {
	emit(explore.Step{Action: fill, Subject: 3}, levels{3, l.large})
	emit(explore.Step{Action: fill, Subject: 5}, levels{l.small, 5})
	emit(explore.Step{Action: empty, Subject: 3}, levels{0, l.large})
	emit(explore.Step{Action: empty, Subject: 5}, levels{l.small, 0})
	up := min(l.small, 5-l.large)
	emit(explore.Step{Action: pour, Subject: 3}, levels{l.small - up, l.large + up})
	down := min(l.large, 3-l.small)
	emit(explore.Step{Action: pour, Subject: 5}, levels{l.small + down, l.large - down})
}

func (jugs) Violation(l levels) string {
	if l.large == 4 {
		return "four liters"
	}
	return ""
}

func (jugs) Describe(_ levels, step explore.Step) string {
	return fmt.Sprintf("%s %d", [...]string{"fill", "empty", "pour"}[step.Action], step.Subject)
}

// jugsWithoutViolation is the same without a violation.
type jugsWithoutViolation struct{ jugs }

func (jugsWithoutViolation) Violation(levels) string { return "" }

func TestSearchFindsTheShortestTrace(t *testing.T) {
	result := explore.Search[levels](jugs{}, levels{}, explore.Limits{})
	want := []string{"fill 5", "pour 5", "empty 3", "pour 5", "fill 5", "pour 5"}
	if result.Violation != "four liters" || !slices.Equal(result.Trace, want) {
		t.Fatalf("found %q by %q, want %q", result.Violation, result.Trace, want)
	}
	if story := result.Story(); !strings.Contains(story, "four liters") || !strings.Contains(story, "6. pour 5") {
		t.Errorf("story %q", story)
	}
}

func TestSearchVisitsEveryStateOnce(t *testing.T) {
	result := explore.Search[levels](jugsWithoutViolation{}, levels{}, explore.Limits{})
	// One of the two jugs is always empty or full: 4 x 6 pairs less 2 x 4 with both in between.
	if result.States != 16 || !result.Complete || result.Violations() != 0 {
		t.Fatalf("states=%d complete=%t violations=%d, want 16, true, 0", result.States, result.Complete, result.Violations())
	}
	if !result.TakenActions[fill] || !result.TakenActions[pour] || result.TakenActions[9] {
		t.Error("taken actions are not noted")
	}
}

func TestSearchStopsAtItsLimits(t *testing.T) {
	if result := explore.Search[levels](jugsWithoutViolation{}, levels{}, explore.Limits{Depth: 2}); result.Depth != 2 || result.Complete {
		t.Errorf("depth=%d complete=%t, want 2 and not complete", result.Depth, result.Complete)
	}
	result := explore.Search[levels](jugsWithoutViolation{}, levels{}, explore.Limits{States: 5})
	if result.States < 5 || result.States > 10 || result.Complete {
		t.Errorf("states=%d complete=%t, want about 5 and not complete", result.States, result.Complete)
	}
}

func TestPrintCountsViolations(t *testing.T) {
	var out strings.Builder
	found := explore.Search[levels](jugs{}, levels{}, explore.Limits{})
	clean := explore.Search[levels](jugsWithoutViolation{}, levels{}, explore.Limits{})
	reports := []explore.Report{{Model: "jugs", Scenario: "a", Result: found}, {Model: "jugs", Scenario: "b", Result: clean}}
	violations := explore.Print(&out, slices.Values(reports))
	want := fmt.Sprintf("model=jugs states=%d depth=%d violations=1\n", found.States+16, max(found.Depth, clean.Depth))
	if violations != 1 || !strings.HasSuffix(out.String(), want) {
		t.Errorf("violations=%d, output %q, want the last line %q", violations, out.String(), want)
	}
}
