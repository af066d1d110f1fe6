package dispatch

import (
	"testing"

	"github.com/swarm-io/swarm-operator/test/model/explore"
	"github.com/swarm-io/swarm-operator/test/model/explore/prove"
)

// What the unit tests search: a second or two. `test/integration/model`, `make model` and `make soak` go further. Without a rule, as many
// states are allowed as `make soak` searches with all of them, so a violation that is found here is within its reach.
const (
	statesWithAllRules   = 5_000
	statesWithoutOneRule = 2_000_000
)

func TestNoViolationsNearTheStart(t *testing.T) {
	t.Parallel()
	for report := range protocol.Check(Scenarios, explore.Limits{States: statesWithAllRules}) {
		if report.Result.Violation != "" {
			t.Errorf("scenario %q:\n%s", report.Scenario, report.Result.Story())
		}
	}
}

func TestX02_EveryRuleNeeded(t *testing.T) {
	t.Parallel()
	prove.EveryRuleIsNeeded(t, protocol, explore.Limits{States: statesWithoutOneRule})
}

func TestTracesAreReadable(t *testing.T) {
	model := Model{Rules: explore.All(ruleCount), Scenario: Everything}
	prove.StepsAreDescribed(t, model, model.initial(), map[explore.Step]string{
		{Action: assignTask, Subject: 0, Detail: 1}: "operator-1 gives attempt 1.1 to b",
		{Action: dial, Subject: 1, Detail: 1}:       "b opens connection 2 to operator-2 and sends Hello (has nothing)",
		{Action: endProcess, Subject: 2}:            "the process of a' ends",
		{Action: tick}:                              "a tick passes",
	})
}

func TestDocumentationNamesEveryRule(t *testing.T) {
	prove.EveryRuleIsDocumented(t, Removals)
}
