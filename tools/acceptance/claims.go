package main

import (
	"regexp"
	"strings"
)

// A claim is what a test proves according to its name: a clause of a row, or the row alone.
type claim struct {
	id     string
	clause string // as in the list; none: only the row is named
	words  string // what follows the id in the name of a Go function, and may begin with a clause
}

const (
	idPattern     = `[A-Z][0-9]{2}`
	clausePattern = `[a-z0-9]+(?:-[a-z0-9]+)*`
	claimPattern  = idPattern + `(?:/` + clausePattern + `)?`
)

var (
	oneClaim = regexp.MustCompile(`(` + idPattern + `)(?:/(` + clausePattern + `))?`)
	// Go writes an underscore where the name of a subtest has a space.
	claimGroup = regexp.MustCompile(`^\[` + claimPattern + `(?:[ ,_]+` + claimPattern + `)*\]$`)
	// Anything that begins like a claim must be one: a typing error would otherwise hide a missing proof.
	bracketed = regexp.MustCompile(`\[` + idPattern + `(?:[^0-9A-Za-z\]][^\]]*)?\]`)
	label     = regexp.MustCompile(`^\[?` + idPattern + `\]?$`)
	// Only letters of the list count here: TestV10Format is about a version and not about a row of a section V.
	function = regexp.MustCompile(`^(?:Test|Fuzz)((?:[SPKORX][0-9]{2}_?)+)([^0-9a-z].*)?$`)
)

// claimsInText finds [S08], [S08/critical-first] and [S08/critical-first, S29/at-once] anywhere. A group that is written wrongly becomes a
// claim that no list has.
func claimsInText(text string) []claim {
	var claims []claim
	for _, group := range bracketed.FindAllString(text, -1) {
		if !claimGroup.MatchString(group) {
			claims = append(claims, claim{id: group})
			continue
		}
		for _, found := range oneClaim.FindAllStringSubmatch(group, -1) {
			claims = append(claims, claim{id: found[1], clause: found[2]})
		}
	}
	return claims
}

// claimsInGoTest also finds ids that the name of a Go function, which cannot have brackets, begins with.
func claimsInGoTest(name string) []claim {
	claims := claimsInText(name)
	if found := function.FindStringSubmatch(name); found != nil {
		for _, one := range oneClaim.FindAllString(found[1], -1) {
			claims = append(claims, claim{id: one, words: strings.TrimPrefix(found[2], "_")})
		}
	}
	return claims
}

// claimsInLabels finds rows only: Ginkgo allows no slash in a label.
func claimsInLabels(labels []string) []claim {
	var claims []claim
	for _, text := range labels {
		if label.MatchString(text) {
			claims = append(claims, claim{id: strings.Trim(text, "[]")})
		}
	}
	return claims
}

// findIn finds the clause of a row that a claim is about, or none when it names only the row. It answers false when the row has no such
// clause.
func (c claim) findIn(r row) (string, bool) {
	if c.clause != "" {
		return c.clause, r.has(c.clause)
	}
	if len(r.clauses) == 1 {
		return r.clauses[0].name, true
	}
	match := ""
	for _, one := range r.clauses {
		if hasPrefixWords(c.words, one.name) && len(one.name) > len(match) {
			match = one.name
		}
	}
	return match, true
}

// hasPrefixWords reports whether words in camel case begin with those of a clause: CriticalFirstOfTwenty with critical-first.
func hasPrefixWords(words, clause string) bool {
	joined := strings.ReplaceAll(clause, "-", "")
	if len(words) < len(joined) || !strings.EqualFold(words[:len(joined)], joined) {
		return false
	}
	rest := words[len(joined):]
	return rest == "" || rest[0] < 'a' || rest[0] > 'z'
}

// String is the claim as a text would have it.
func (c claim) String() string {
	if c.clause == "" {
		return c.id
	}
	return c.id + "/" + c.clause
}
