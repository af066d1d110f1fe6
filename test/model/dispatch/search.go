package dispatch

import (
	"fmt"
	"iter"
	"slices"

	"github.com/swarm-io/swarm-operator/test/model/explore"
)

var protocol = explore.Protocol[state, Scenario]{
	Name: "dispatch", Rules: ruleCount, Removals: Removals,
	NameOf: func(scenario Scenario) string { return scenario.Name },
	Model: func(rules explore.Rules, scenario Scenario, watch fmt.Stringer) (explore.Model[state], state) {
		watched, _ := watch.(Invariant)
		model := Model{Rules: rules, Scenario: scenario, Watch: watched}
		return model, model.initial()
	},
}

// Check searches every scenario, and every pair of faults, with all rules.
func Check(limits explore.Limits) iter.Seq[explore.Report] {
	return protocol.Check(slices.Concat(Scenarios, FaultPairs()), limits)
}

// LastAction is the last action that some scenario must take.
const LastAction = actionsEnd - 1

// ForbiddenActions never happen while all rules hold: a term begins with current caches of pods and agents, and they are not read again.
var ForbiddenActions = []uint8{syncPods}

// Without searches the scenarios that need a rule, without it.
func Without(rule string, limits explore.Limits) iter.Seq[explore.Report] {
	return protocol.Without(rule, limits)
}
