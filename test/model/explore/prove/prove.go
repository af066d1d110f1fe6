// Package prove has what the tests of all models share.
package prove

import (
	"iter"
	"os"
	"strings"
	"testing"

	"github.com/swarm-io/swarm-operator/test/model/explore"
)

// minStates is how many states a test of a model visits at least.
const minStates = 1_000_000

// NoViolations searches for violations, and expects that enough states are visited and that the actions up to last happen, but not those
// that the rules forbid.
func NoViolations(t testing.TB, reports iter.Seq[explore.Report], lastAction uint8, forbidden []uint8) {
	t.Helper()
	states := 0
	var takenActions [256]bool
	for report := range reports {
		t.Log(report)
		if report.Result.Violation != "" {
			t.Errorf("scenario %q:\n%s", report.Scenario, report.Result.Story())
		}
		states += report.Result.States
		for action := range takenActions {
			takenActions[action] = takenActions[action] || report.Result.TakenActions[action]
		}
	}
	if states < minStates {
		t.Errorf("%d states were visited, want %d", states, minStates)
	}
	for _, action := range forbidden {
		takenActions[action] = !takenActions[action]
	}
	for action := uint8(1); action <= lastAction; action++ {
		if !takenActions[action] {
			t.Errorf("action %d never happens in any scenario, so the search proves nothing about it, or happens against the rules", action)
		}
	}
}

// EveryRuleIsNeeded removes each rule of a protocol in turn, and expects the violation that the rule prevents.
func EveryRuleIsNeeded[S comparable, C any](t *testing.T, protocol explore.Protocol[S, C], limits explore.Limits) {
	tested := map[explore.Rule]bool{}
	for _, removal := range protocol.Removals {
		tested[removal.Rule] = true
		t.Run(removal.Name+"/"+protocol.NameOf(removal.Scenario)+"/"+removal.Violates.String(), func(t *testing.T) {
			t.Parallel()
			report := protocol.Remove(removal, limits)
			if report.Result.Violation != removal.Violates.String() {
				t.Fatalf("without %s: %s, found %q, want %q", removal.Name, report, report.Result.Violation, removal.Violates)
			}
			t.Logf("%s %s: %s\n%s", removal.Name, removal.Finding, report, report.Result.Story())
		})
	}
	for rule := range protocol.Rules {
		if !tested[rule] {
			t.Errorf("rule %d is never left out", rule)
		}
	}
}

// EveryRuleIsDocumented expects a row for each rule in the table of the page.
func EveryRuleIsDocumented[C any](t *testing.T, removals []explore.Removal[C]) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/explanation/model.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, removal := range removals {
		if !strings.Contains(string(page), "\n| `"+removal.Name+"` |") {
			t.Errorf("docs/explanation/model.md has no row for rule %s", removal.Name)
		}
	}
}

// StepsAreDescribed expects a sentence for each of some steps from a state. Every sentence comes from a table or a switch: a
// step without one would be described as another step.
func StepsAreDescribed[S comparable](t *testing.T, model explore.Model[S], from S, sentences map[explore.Step]string) {
	t.Helper()
	for step, want := range sentences {
		if got := model.Describe(from, step); got != want {
			t.Errorf("%+v is described as %q, want %q", step, got, want)
		}
	}
}
