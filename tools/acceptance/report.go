package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

// proofs are the tests that name an id, by level, and the worst that came of them.
type proofs struct {
	outcome outcome
	passed  map[string][]string
	failed  map[string][]string
}

// collect sorts tests to ids. An id that is not in the list is a typing error in a test, and would hide a missing proof.
func collect(chapters []chapter, tests []test) (map[string]*proofs, error) {
	evidence := map[string]*proofs{}
	for _, c := range chapters {
		for _, l := range c.lines {
			evidence[l.id] = &proofs{passed: map[string][]string{}, failed: map[string][]string{}}
		}
	}
	var unknown []string
	for _, t := range tests {
		for _, id := range t.ids {
			if evidence[id] == nil {
				unknown = append(unknown, fmt.Sprintf("%s in %s test %q", id, t.level, t.name))
				continue
			}
			evidence[id].add(t)
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("find ids in the list: there is no\n  %s", strings.Join(unknown, "\n  "))
	}
	return evidence, nil
}

func (p *proofs) add(t test) {
	p.outcome = max(p.outcome, t.outcome)
	switch t.outcome {
	case passed:
		p.passed[t.level] = append(p.passed[t.level], t.name)
	case failed:
		p.failed[t.level] = append(p.failed[t.level], t.name)
	case skipped:
	}
}

type report struct {
	chapters []chapter
	evidence map[string]*proofs
	most     int
}

func (r report) healthy() bool {
	for _, p := range r.evidence {
		if p.outcome == failed {
			return false
		}
	}
	return true
}

func (r report) write(out io.Writer) error {
	var text bytes.Buffer
	for _, c := range r.chapters {
		fmt.Fprintf(&text, "%s: %s\n", c.letter, c.title)
		for _, l := range c.lines {
			r.writeLine(&text, l)
		}
		text.WriteByte('\n')
	}
	r.writeSummary(&text)
	_, err := out.Write(text.Bytes())
	return err
}

func (r report) writeLine(to io.Writer, l line) {
	p := r.evidence[l.id]
	fmt.Fprintf(to, "  %s  %-6s  %s\n", l.id, verdict(p.outcome), l.capability)
	for _, level := range levels {
		r.writeTests(to, level, "failed", p.failed[level])
		r.writeTests(to, level, "passed", p.passed[level])
	}
}

func verdict(o outcome) string {
	return map[outcome]string{skipped: "-", passed: "proven", failed: "FAILED"}[o]
}

func (r report) writeTests(to io.Writer, level, what string, names []string) {
	names = unique(names)
	rest := 0
	if r.most > 0 && len(names) > r.most {
		names, rest = names[:r.most], len(names)-r.most
	}
	for _, name := range names {
		fmt.Fprintf(to, "         %-11s  %s  %s\n", level, what, name)
	}
	if rest > 0 {
		fmt.Fprintf(to, "         %-11s  %s  and %d more\n", level, what, rest)
	}
}

func (r report) writeSummary(to io.Writer) {
	fmt.Fprintln(to, "Summary")
	var all []line
	for _, c := range r.chapters {
		fmt.Fprintf(to, "  %s: %s\n", c.letter, r.count(c.lines))
		all = append(all, c.lines...)
	}
	fmt.Fprintf(to, "  all: %s\n", r.count(all))
}

func (r report) count(lines []line) string {
	proven, broken := 0, 0
	var at []string
	for _, l := range lines {
		p := r.evidence[l.id]
		switch p.outcome {
		case failed:
			broken++
		case passed:
			proven++
			for level := range p.passed {
				at = append(at, level)
			}
		case skipped:
		}
	}
	text := fmt.Sprintf("%d of %d proven", proven, len(lines))
	if broken > 0 {
		text += fmt.Sprintf(", %d FAILED", broken)
	}
	return text + byLevel(at)
}

func byLevel(at []string) string {
	var parts []string
	for _, level := range levels {
		n := len(slices.DeleteFunc(slices.Clone(at), func(l string) bool { return l != level }))
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", level, n))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
