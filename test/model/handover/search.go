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

// Without searches the scenarios that need a rule, without it.
func Without(rule string, limits explore.Limits) iter.Seq[explore.Report] {
	return protocol.Without(rule, limits)
}
