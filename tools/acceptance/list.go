package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A section of the list is a heading such as "## S: Swarms" and the table under it.
type section struct {
	letter string
	title  string
	rows   []row
}

// A row is proven when all its clauses are.
type row struct {
	id         string
	capability string
	clauses    []clause
}

func (r row) has(name string) bool {
	return slices.ContainsFunc(r.clauses, func(c clause) bool { return c.name == name })
}

// A clause is one thing that a person must see, and the lowest level that can show it.
type clause struct {
	name  string
	level string
}

// String is the clause as in the list.
func (c clause) String() string { return c.name + "@" + c.level }

var (
	heading  = regexp.MustCompile(`^##\s+([A-Z]):\s+(.+)$`)
	tableRow = regexp.MustCompile(`^\|\s*([A-Z][0-9]{2})\s*\|(.*)\|$`)
	aClause  = regexp.MustCompile(`^(` + clausePattern + `)@([a-z0-9]+)$`)
)

// columns are the columns after the id: capability, seen when, clauses.
const columns = 3

func parseList(content string) ([]section, error) {
	var sections []section
	ids := map[string]bool{}
	for text := range strings.Lines(content) {
		text = strings.TrimSpace(text)
		if match := heading.FindStringSubmatch(text); match != nil {
			sections = append(sections, section{letter: match[1], title: match[2]})
			continue
		}
		match := tableRow.FindStringSubmatch(text)
		if match == nil {
			continue
		}
		r, err := parseRow(match[1], match[2])
		switch {
		case err != nil:
			return nil, err
		case len(sections) == 0 || !strings.HasPrefix(r.id, sections[len(sections)-1].letter):
			return nil, fmt.Errorf("place id %s: it is not under a heading of its letter", r.id)
		case ids[r.id]:
			return nil, fmt.Errorf("place id %s: it is there twice", r.id)
		}
		ids[r.id] = true
		last := &sections[len(sections)-1]
		last.rows = append(last.rows, r)
	}
	if len(ids) == 0 {
		return nil, errors.New("no id found")
	}
	return sections, nil
}

func parseRow(id, text string) (row, error) {
	cells := splitCells(text)
	if len(cells) != columns {
		return row{}, fmt.Errorf("read row %s: it has %d columns after the id, want %d: capability, seen when, clauses", id, len(cells), columns)
	}
	r := row{id: id, capability: cells[0]}
	for word := range strings.FieldsSeq(cells[columns-1]) {
		match := aClause.FindStringSubmatch(word)
		switch {
		case match == nil || !slices.Contains(levels, match[2]):
			return row{}, fmt.Errorf("read row %s: clause %q is not name@level, the level one of %s", id, word, strings.Join(levels, ", "))
		case r.has(match[1]):
			return row{}, fmt.Errorf("read row %s: clause %q is there twice", id, match[1])
		}
		r.clauses = append(r.clauses, clause{name: match[1], level: match[2]})
	}
	if len(r.clauses) == 0 {
		return row{}, fmt.Errorf("read row %s: it has no clauses", id)
	}
	return r, nil
}

// splitCells ends a cell at each bar that Markdown takes for a border: an escaped one belongs to the text.
func splitCells(text string) []string {
	const bar = "\x00"
	var cells []string
	for cell := range strings.SplitSeq(strings.ReplaceAll(text, `\|`, bar), "|") {
		cells = append(cells, strings.TrimSpace(strings.ReplaceAll(cell, bar, "|")))
	}
	return cells
}
