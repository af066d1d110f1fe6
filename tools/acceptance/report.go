package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A report is what is printed.
type report struct {
	sections []section
	evidence map[string]evidence
	stale    []string // runs of the benchmark that no longer count, with the reason
	maxNames int      // how many tests are named for each clause, level and outcome; 0: all
}

// isHealthy reports whether nothing failed. Missing proofs are no failure: they are what is left to do.
func (r report) isHealthy() bool {
	for id, one := range rowsByID(r.sections) {
		if r.evidence[id].verdictOf(one) == broken {
			return false
		}
	}
	return true
}

func (r report) write(out io.Writer) error {
	var text bytes.Buffer
	for _, s := range r.sections {
		fmt.Fprintf(&text, "%s: %s\n", s.letter, s.title)
		for _, one := range s.rows {
			r.writeRow(&text, one)
		}
		text.WriteByte('\n')
	}
	r.writeStale(&text)
	r.writeOpen(&text)
	r.writeSummary(&text)
	_, err := out.Write(text.Bytes())
	return err
}

func (r report) writeRow(to io.Writer, one row) {
	all := r.evidence[one.id]
	fmt.Fprintf(to, "  %s  %-6s  %s\n", one.id, all.verdictOf(one), one.capability)
	for _, c := range one.clauses {
		fmt.Fprintf(to, "       %-6s  %s%s\n", all[c.name].verdictOf(c), c, hint(all[c.name], c))
		r.writeTests(to, all[c.name])
	}
	if len(all[""]) > 0 {
		fmt.Fprintf(to, "       %-6s  named without a clause\n", "-")
		r.writeTests(to, all[""])
	}
}

// hint reports that an open clause has tests, only not of its level.
func hint(tests resultsByLevel, c clause) string {
	var otherLevel []string
	for _, level := range levels {
		if len(tests[level][passed]) > 0 && !isSufficient(level, c.level) {
			otherLevel = append(otherLevel, level)
		}
	}
	if tests.verdictOf(c) != open || len(otherLevel) == 0 {
		return ""
	}
	return " (passed only at " + strings.Join(otherLevel, ", ") + ")"
}

func (r report) writeTests(to io.Writer, tests resultsByLevel) {
	for _, level := range levels {
		for _, became := range []outcome{failed, passed, missed, stale, skipped} {
			r.writeNames(to, fmt.Sprintf("%-11s  %-7s", level, became), tests[level][became])
		}
	}
}

func (r report) writeNames(to io.Writer, title string, names []string) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	rest := 0
	if r.maxNames > 0 && len(names) > r.maxNames {
		names, rest = names[:r.maxNames], len(names)-r.maxNames
	}
	for _, name := range names {
		fmt.Fprintf(to, "                 %s  %s\n", title, name)
	}
	if rest > 0 {
		fmt.Fprintf(to, "                 %s  and %d more\n", title, rest)
	}
}

func (r report) writeStale(to io.Writer) {
	if len(r.stale) == 0 {
		return
	}
	fmt.Fprintln(to, "Stale numbers, which prove nothing until make bench has run again")
	for _, reason := range r.stale {
		fmt.Fprintf(to, "  %s\n", reason)
	}
	fmt.Fprintln(to)
}

func (r report) writeOpen(to io.Writer) {
	fmt.Fprintln(to, "Open clauses")
	for _, s := range r.sections {
		for _, one := range s.rows {
			if left := r.evidence[one.id].openClauses(one); len(left) > 0 {
				fmt.Fprintf(to, "  %s  %s\n", one.id, strings.Trim(fmt.Sprint(left), "[]"))
			}
		}
	}
	fmt.Fprintln(to)
}

func (r report) writeSummary(to io.Writer) {
	const format = "  %-5s %6v %7v %6v %7v %5v %9v\n"
	fmt.Fprintln(to, "Summary")
	fmt.Fprintf(to, format, "", "proven", "partly", "open", "FAILED", "ids", "clauses")
	var rows []row
	for _, s := range r.sections {
		r.writeCount(to, format, s.letter, s.rows)
		rows = append(rows, s.rows...)
	}
	r.writeCount(to, format, "all", rows)
}

func (r report) writeCount(to io.Writer, format, name string, rows []row) {
	count := map[verdict]int{}
	provenCount, clauses := 0, 0
	for _, one := range rows {
		count[r.evidence[one.id].verdictOf(one)]++
		provenCount += len(one.clauses) - len(r.evidence[one.id].openClauses(one))
		clauses += len(one.clauses)
	}
	fmt.Fprintf(to, format, name, count[proven], count[partly], count[open], count[broken], len(rows),
		fmt.Sprintf("%d/%d", provenCount, clauses))
}
