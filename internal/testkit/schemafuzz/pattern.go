package schemafuzz

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// stringMatching generates a string that matches the pattern and has an allowed length, often the longest or the shortest.
func (g *Generator) stringMatching(pattern string, minLength, maxLength int) string {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		panic(err) // the API server has compiled it as well
	}
	anchored := regexp.MustCompile(pattern)
	longest := pick(g.rand, 0, 1, 3, 8, maxLength)
	for ; ; longest = (longest + g.rand.IntN(4)) % (maxLength + 1) {
		var text strings.Builder
		g.write(&text, parsed.Simplify(), longest)
		made := text.String()
		if size := utf8.RuneCountInString(made); size >= minLength && size <= maxLength && anchored.MatchString(made) {
			return made
		}
	}
}

// write appends a match of the expression. Unbounded repetitions are repeated up to this often.
func (g *Generator) write(text *strings.Builder, expression *syntax.Regexp, repeat int) {
	switch expression.Op {
	case syntax.OpLiteral:
		text.WriteString(string(expression.Rune))
	case syntax.OpCharClass:
		text.WriteRune(g.oneOf(expression.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		text.WriteRune(rune(' ' + g.rand.IntN('~'-' ')))
	case syntax.OpCapture:
		g.write(text, expression.Sub[0], repeat)
	case syntax.OpConcat:
		for _, part := range expression.Sub {
			g.write(text, part, repeat)
		}
	case syntax.OpAlternate:
		g.write(text, pick(g.rand, expression.Sub...), repeat)
	case syntax.OpQuest:
		if g.rand.IntN(3) > 0 {
			g.write(text, expression.Sub[0], max(repeat-2, 0))
		}
	case syntax.OpStar, syntax.OpPlus:
		for range max(repeat, int(expression.Op-syntax.OpStar)) {
			g.write(text, expression.Sub[0], repeat)
		}
	}
}

// oneOf draws a character from ranges, from ASCII if possible.
func (g *Generator) oneOf(ranges []rune) rune {
	n := g.rand.IntN(len(ranges)/2) * 2
	from, to := ranges[n], ranges[n+1]
	for _, printable := range []rune{'~', 'ÿ'} {
		if low := max(from, ' '); low <= min(to, printable) {
			return low + rune(g.rand.IntN(int(min(to, printable)-low)+1))
		}
	}
	return from
}
