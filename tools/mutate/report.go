package main

import (
	"fmt"
	"io"
	"path/filepath"
)

// outcome is a mutant and its verdict.
type outcome struct {
	mutant
	verdict
}

// report prints the outcomes of one package.
type report struct {
	out      io.Writer
	root     string
	name     string
	outcomes []outcome
}

// add prints one line for a mutant.
func (r *report) add(o outcome, number int) {
	r.outcomes = append(r.outcomes, o)
	fmt.Fprintf(r.out, "  %3d/%d  %-11s  %s\n", len(r.outcomes), number, o.verdict, r.describe(o.mutant))
}

func (r *report) describe(m mutant) string {
	return fmt.Sprintf("%s:%d  %s", relative(r.root, m.file.path), m.line(), m.change)
}

// summary prints the survivors and the score.
func (r *report) summary() {
	if len(r.outcomes) == 0 {
		fmt.Fprintf(r.out, "%s: no mutant was tried\n\n", r.name)
		return
	}
	caught := 0
	fmt.Fprintf(r.out, "\n%s: survivors\n", r.name)
	for _, o := range r.outcomes {
		switch {
		case o.isKilled():
			caught++
		case o.verdict == notCovered:
			fmt.Fprintf(r.out, "%s (not covered)\n", r.describe(o.mutant))
		default:
			fmt.Fprintln(r.out, r.describe(o.mutant))
		}
	}
	fmt.Fprintf(r.out, "%s: killed/total = %d/%d = %d %%\n\n", r.name, caught, len(r.outcomes), caught*100/len(r.outcomes))
}

func relative(root, path string) string {
	if short, err := filepath.Rel(root, path); err == nil {
		return short
	}
	return path
}
