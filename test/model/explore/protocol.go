package explore

import (
	"fmt"
	"iter"
)

// A Protocol has a model for each scenario and each set of rules. C is its type of scenarios.
type Protocol[S comparable, C any] struct {
	Name     string
	Rules    Rule // number of rules
	Removals []Removal[C]
	NameOf   func(scenario C) string
	// Model returns the protocol with some of its rules, in a scenario, and its initial state. Only the watched invariant is
	// checked; nil: all.
	Model func(rules Rules, scenario C, watch fmt.Stringer) (Model[S], S)
}

// A Removal shows why a rule is needed: without it, a scenario violates an invariant.
type Removal[C any] struct {
	Rule     Rule
	Name     string
	Finding  string // of the review of the protocol, if there was one
	Scenario C
	Violates fmt.Stringer
}

// NewRemoval returns a row of a table of removals.
func NewRemoval[C any](rule Rule, name, finding string, scenario C, violates fmt.Stringer) Removal[C] {
	return Removal[C]{Rule: rule, Name: name, Finding: finding, Scenario: scenario, Violates: violates}
}

// Check searches scenarios with all rules.
func (p Protocol[S, C]) Check(scenarios []C, limits Limits) iter.Seq[Report] {
	return func(yield func(Report) bool) {
		for _, scenario := range scenarios {
			if !yield(p.search(All(p.Rules), scenario, nil, limits)) {
				return
			}
		}
	}
}

// Without searches the scenarios that need a rule, without it.
func (p Protocol[S, C]) Without(rule string, limits Limits) iter.Seq[Report] {
	return func(yield func(Report) bool) {
		for _, removal := range p.Removals {
			if removal.Name == rule && !yield(p.Remove(removal, limits)) {
				return
			}
		}
	}
}

// Remove searches the scenario of a removal without its rule.
func (p Protocol[S, C]) Remove(removal Removal[C], limits Limits) Report {
	return p.search(All(p.Rules).Without(removal.Rule), removal.Scenario, removal.Violates, limits)
}

func (p Protocol[S, C]) search(rules Rules, scenario C, watch fmt.Stringer, limits Limits) Report {
	model, initial := p.Model(rules, scenario, watch)
	return Report{Model: p.Name, Scenario: p.NameOf(scenario), Result: Search(model, initial, limits)}
}
