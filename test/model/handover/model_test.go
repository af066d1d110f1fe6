package handover

import (
	"os"
	"strings"
	"testing"

	"github.com/swarm-io/swarm-operator/test/model/explore"
)

// What CI searches: a few seconds on one core. `make model` and `make soak` go further.
const states = 150_000

func TestProtocolHoldsInEveryScenario(t *testing.T) {
	var taken [256]bool
	for report := range Check(explore.Limits{States: states}) {
		t.Log(report)
		if report.Result.Violation != "" {
			t.Errorf("scenario %q:\n%s", report.Scenario, report.Result.Story())
		}
		for action := range taken {
			taken[action] = taken[action] || report.Result.Taken[action]
		}
	}
	// A worker stops its job before it acknowledges, so this one has nothing left to stop.
	taken[stopJob] = !taken[stopJob]
	for action := plan; action < actionCount; action++ {
		if !taken[action] {
			t.Errorf("action %d never happens in any scenario, so the search proves nothing about it, or happens against the rules", action)
		}
	}
}

func TestEveryRuleIsNeeded(t *testing.T) {
	tested := map[Rule]bool{}
	for _, removal := range Removals {
		tested[removal.Rule] = true
		t.Run(removal.Name+"/"+removal.Scenario.Name, func(t *testing.T) {
			result := removal.search(explore.Limits{States: states})
			if result.Violation != removal.Violates {
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

func TestTracesAreReadable(t *testing.T) {
	for _, c := range []struct {
		step explore.Step
		want string
	}{
		{explore.Step{Action: plan, Subject: 1}, "the pool plans to give the job to w-1"},
		{explore.Step{Action: grant}, "operator-1 writes the list with the job for w-0"},
		{explore.Step{Action: syncFile}, "the kubelet brings list 1 (with the job) to w-0"},
		{explore.Step{Action: changeLeader}, "operator-2 takes the Lease"},
		{explore.Step{Action: endPod, Subject: 2}, "the process of w-0' has ended, and its pod is gone"},
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
