package dispatch

import (
	"iter"
	"testing"

	"github.com/swarm-io/swarm-operator/test/model/explore"
	"github.com/swarm-io/swarm-operator/test/model/explore/prove"
)

// What CI searches: a few seconds on two cores, and a little more than a million states with all rules. `make model` and
// `make soak` go further. Without a rule, as many states are allowed as `make soak` searches with all of them, so a violation
// that is found here is within its reach.
const (
	statesWithAllRules   = 40_000
	statesWithPairs      = 3_000
	statesWithoutOneRule = 2_000_000
)

func TestX02_MillionStatesWithoutAViolation(t *testing.T) {
	t.Parallel()
	// A term begins with current caches of pods and agents, and they are not read again.
	prove.NoViolations(t, searchedScenarios, actionsEnd-1, syncPods)
}

// searchedScenarios is every scenario, and every pair of faults.
func searchedScenarios(yield func(explore.Report) bool) {
	for _, reports := range []iter.Seq[explore.Report]{
		protocol.Check(Scenarios, explore.Limits{States: statesWithAllRules}),
		protocol.Check(FaultPairs(), explore.Limits{States: statesWithPairs}),
	} {
		for report := range reports {
			if !yield(report) {
				return
			}
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
