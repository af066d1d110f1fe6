package dispatch

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/swarm-io/swarm-operator/test/model/explore"
)

// What CI searches: about ten seconds on one core. `make model` and `make soak` go further.
const (
	statesWithAllRules   = 100_000
	statesOfPairs        = 10_000
	statesWithoutOneRule = 1_500_000
)

func TestProtocolHoldsInEveryScenario(t *testing.T) {
	var taken [256]bool
	reports := slices.Collect(check(Scenarios, explore.Limits{States: statesWithAllRules}))
	for _, report := range slices.AppendSeq(reports, check(Pairs(), explore.Limits{States: statesOfPairs})) {
		t.Log(report)
		if report.Result.Violation != "" {
			t.Errorf("scenario %q:\n%s", report.Scenario, report.Result.Story())
		}
		for action := range taken {
			taken[action] = taken[action] || report.Result.Taken[action]
		}
	}
	// A term begins with current caches of pods and agents, and they are not read again.
	taken[syncPods] = !taken[syncPods]
	for action := tick; action < actionCount; action++ {
		if !taken[action] {
			t.Errorf("action %d never happens in any scenario, so the search proves nothing about it, or happens against the rules", action)
		}
	}
}

func TestEveryRuleIsNeeded(t *testing.T) {
	tested := map[Rule]bool{}
	for _, removal := range Removals {
		tested[removal.Rule] = true
		t.Run(removal.Name+"/"+removal.Violates.String(), func(t *testing.T) {
			result := removal.search(explore.Limits{States: statesWithoutOneRule})
			if result.Violation != removal.Violates.String() {
				t.Fatalf("without %s, %d states in scenario %q, to depth %d, found %q, want %q", removal.Name, result.States, removal.Scenario.Name,
					result.Depth, result.Violation, removal.Violates)
			}
			t.Logf("%s %s: states=%d depth=%d\n%s", removal.Name, removal.Finding, result.States, result.Depth, result.Story())
		})
	}
	for rule := range ruleCount {
		if !tested[rule] {
			t.Errorf("rule %d is never left out", rule)
		}
	}
}

// Every sentence of a trace comes from a table or a switch: a step without one would be described as another.
func TestTracesAreReadable(t *testing.T) {
	for _, c := range []struct {
		step explore.Step
		want string
	}{
		{explore.Step{Action: giveOut, Subject: 0, Detail: 1}, "operator-1 gives attempt 1.1 to b"},
		{explore.Step{Action: dial, Subject: 1, Detail: 1}, "b opens connection 2 to operator-2 and sends Hello (has nothing)"},
		{explore.Step{Action: crashProcess, Subject: 2}, "the process of a' ends"},
		{explore.Step{Action: tick}, "a tick passes"},
	} {
		model := Model{Rules: AllRules, Scenario: Everything}
		if got := model.Describe(model.initial(), c.step); got != c.want {
			t.Errorf("%+v is described as %q, want %q", c.step, got, c.want)
		}
	}
}

func TestDocumentationNamesEveryRule(t *testing.T) {
	page, err := os.ReadFile("../../../docs/explanation/model.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, removal := range Removals {
		if !strings.Contains(string(page), "\n| `"+removal.Name+"` |") {
			t.Errorf("docs/explanation/model.md has no row for rule %s", removal.Name)
		}
	}
}
