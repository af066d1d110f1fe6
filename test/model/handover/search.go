package handover

import (
	"iter"

	"github.com/swarm-io/swarm-operator/test/model/explore"
)

const name = "handover"

// Check searches every scenario with all rules.
func Check(limits explore.Limits) iter.Seq[explore.Report] {
	return func(yield func(explore.Report) bool) {
		for _, scenario := range Scenarios {
			result := Model{Rules: AllRules, Scenario: scenario}.search(limits)
			if !yield(explore.Report{Model: name, Scenario: scenario.Name, Result: result}) {
				return
			}
		}
	}
}

// Without searches what a rule is needed for, without it.
func Without(rule string, limits explore.Limits) iter.Seq[explore.Report] {
	return func(yield func(explore.Report) bool) {
		for _, removal := range Removals {
			if removal.Name == rule && !yield(explore.Report{Model: name, Scenario: removal.Scenario.Name, Result: removal.search(limits)}) {
				return
			}
		}
	}
}

func (r Removal) search(limits explore.Limits) explore.Result {
	return Model{Rules: AllRules.Without(r.Rule), Scenario: r.Scenario}.search(limits)
}

func (m Model) search(limits explore.Limits) explore.Result {
	return explore.Search[state](m, m.initial(), limits)
}
