package handover

import (
	"fmt"
	"iter"

	"github.com/swarm-io/swarm-operator/test/model/explore"
)

var protocol = explore.Protocol[state, Scenario]{
	Name: "handover", Rules: ruleCount, Removals: Removals,
	NameOf: func(scenario Scenario) string { return scenario.Name },
	Model: func(rules explore.Rules, scenario Scenario, _ fmt.Stringer) (explore.Model[state], state) {
		model := Model{Rules: rules, Scenario: scenario}
		return model, model.initial()
	},
}

// Check searches every scenario with all rules.
func Check(limits explore.Limits) iter.Seq[explore.Report] { return protocol.Check(Scenarios, limits) }

// LastAction is the last action that some scenario must take.
const LastAction = actionCount - 1

// ForbiddenActions never happen while all rules hold: a worker stops its job before it acknowledges, so it has nothing left to stop.
var ForbiddenActions = []uint8{stopJob}

// Without searches the scenarios that need a rule, without it.
func Without(rule string, limits explore.Limits) iter.Seq[explore.Report] {
	return protocol.Without(rule, limits)
}
