package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A verdict is about a clause or a whole row.
type verdict string

const (
	open   verdict = "open"
	partly verdict = "partly" // rows only
	proven verdict = "proven"
	broken verdict = "FAILED"
)

// resultsByLevel are the tests that name a clause, by level and outcome.
type resultsByLevel map[string]map[outcome][]string

func (f resultsByLevel) add(t test) {
	if f[t.level] == nil {
		f[t.level] = map[outcome][]string{}
	}
	f[t.level][t.outcome] = append(f[t.level][t.outcome], t.name)
}

func (f resultsByLevel) hasFailed() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(f)), func(at map[outcome][]string) bool { return len(at[failed]) > 0 })
}

// proves reports whether tests of a level show a clause. All measurements of a clause must be good, while one passing test is enough.
func (f resultsByLevel) proves(level string, c clause) bool {
	at := f[level]
	return isSufficient(level, c.level) && len(at[passed]) > 0 && (level != bench || len(at) == 1)
}

func (f resultsByLevel) verdictOf(c clause) verdict {
	switch {
	case f.hasFailed():
		return broken
	case slices.ContainsFunc(levels, func(level string) bool { return f.proves(level, c) }):
		return proven
	}
	return open
}

// evidence is what tests say about a row: by clause, and under no name what names only the row.
type evidence map[string]resultsByLevel

func (e evidence) verdictOf(r row) verdict {
	provenCount := 0
	for _, c := range r.clauses {
		switch e[c.name].verdictOf(c) {
		case broken:
			return broken
		case proven:
			provenCount++
		}
	}
	switch {
	case e[""].hasFailed():
		return broken
	case provenCount == len(r.clauses):
		return proven
	case provenCount > 0:
		return partly
	}
	return open
}

// openClauses are the clauses that are not proven.
func (e evidence) openClauses(r row) []clause {
	return slices.DeleteFunc(slices.Clone(r.clauses), func(c clause) bool { return e[c.name].verdictOf(c) == proven })
}

// collect sorts tests by what they claim. A claim that the list does not have is a typing error in a test, and would hide a missing proof.
func collect(sections []section, tests []test) (map[string]evidence, error) {
	rows := rowsByID(sections)
	result := map[string]evidence{}
	for id, r := range rows {
		result[id] = evidence{"": {}}
		for _, c := range r.clauses {
			result[id][c.name] = resultsByLevel{}
		}
	}
	var unknownClaims []string
	for _, t := range tests {
		for _, claimed := range t.claims {
			name, known := claimed.findIn(rows[claimed.id])
			if result[claimed.id] == nil || !known {
				unknownClaims = append(unknownClaims, fmt.Sprintf("%s in %s test %q", claimed, t.level, t.name))
				continue
			}
			result[claimed.id][name].add(t)
		}
	}
	if len(unknownClaims) > 0 {
		return nil, fmt.Errorf("find ids and clauses in the list: there is no\n  %s", strings.Join(unknownClaims, "\n  "))
	}
	return result, nil
}

func rowsByID(sections []section) map[string]row {
	rows := map[string]row{}
	for _, s := range sections {
		for _, r := range s.rows {
			rows[r.id] = r
		}
	}
	return rows
}
