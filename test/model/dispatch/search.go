package dispatch

import "github.com/swarm-io/swarm-operator/test/model/explore"

const name = "dispatch"

// Check searches every scenario, and every pair of faults, with all rules.
func Check(limits explore.Limits) []explore.Report {
	return append(check(Scenarios, limits), check(Pairs(), limits)...)
}

func check(scenarios []Scenario, limits explore.Limits) []explore.Report {
	reports := make([]explore.Report, 0, len(scenarios))
	for _, scenario := range scenarios {
		result := Model{Rules: AllRules, Scenario: scenario}.search(limits)
		reports = append(reports, explore.Report{Model: name, Scenario: scenario.Name, Result: result})
	}
	return reports
}

// Without searches what a rule is needed for, without it.
func Without(rule string, limits explore.Limits) []explore.Report {
	var reports []explore.Report
	for _, removal := range Removals {
		if removal.Name == rule {
			reports = append(reports, explore.Report{Model: name, Scenario: removal.Scenario.Name, Result: removal.search(limits)})
		}
	}
	return reports
}

func (r Removal) search(limits explore.Limits) explore.Result {
	return Model{Rules: AllRules.Without(r.Rule), Scenario: r.Scenario, Watch: r.Violates}.search(limits)
}

func (m Model) search(limits explore.Limits) explore.Result {
	return explore.Search[state](m, m.initial(), limits)
}
