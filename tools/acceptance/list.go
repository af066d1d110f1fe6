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
	seen := map[string]bool{}
	for text := range strings.Lines(content) {
		text = strings.TrimSpace(text)
		if found := heading.FindStringSubmatch(text); found != nil {
			sections = append(sections, section{letter: found[1], title: found[2]})
			continue
		}
		found := tableRow.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		parsed, err := parseRow(found[1], found[2])
		switch {
		case err != nil:
			return nil, err
		case len(sections) == 0 || !strings.HasPrefix(parsed.id, sections[len(sections)-1].letter):
			return nil, fmt.Errorf("place id %s: it is not under a heading of its letter", parsed.id)
		case seen[parsed.id]:
			return nil, fmt.Errorf("place id %s: it is there twice", parsed.id)
		}
		seen[parsed.id] = true
		last := &sections[len(sections)-1]
		last.rows = append(last.rows, parsed)
	}
	if len(seen) == 0 {
		return nil, errors.New("no id found")
	}
	return sections, nil
}

func parseRow(id, text string) (row, error) {
	cells := splitCells(text)
	if len(cells) != columns {
		return row{}, fmt.Errorf("read row %s: it has %d columns after the id, want %d: capability, seen when, clauses", id, len(cells), columns)
	}
	parsed := row{id: id, capability: cells[0]}
	for word := range strings.FieldsSeq(cells[columns-1]) {
		found := aClause.FindStringSubmatch(word)
		switch {
		case found == nil || !slices.Contains(levels, found[2]):
			return row{}, fmt.Errorf("read row %s: clause %q is not name@level, the level one of %s", id, word, strings.Join(levels, ", "))
		case parsed.has(found[1]):
			return row{}, fmt.Errorf("read row %s: clause %q is there twice", id, found[1])
		}
		parsed.clauses = append(parsed.clauses, clause{name: found[1], level: found[2]})
	}
	if len(parsed.clauses) == 0 {
		return row{}, fmt.Errorf("read row %s: it has no clauses", id)
	}
	return parsed, nil
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
