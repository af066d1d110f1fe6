package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// A chapter of the list is a heading such as "## S: Swarms" and the table under it.
type chapter struct {
	letter string
	title  string
	lines  []line
}

type line struct {
	id         string
	capability string
}

var (
	heading = regexp.MustCompile(`^##\s+([A-Z]):\s+(.+)$`)
	row     = regexp.MustCompile(`^\|\s*([A-Z][0-9]{2})\s*\|(.*)$`)
)

func parseList(content string) ([]chapter, error) {
	var chapters []chapter
	seen := map[string]bool{}
	for text := range strings.Lines(content) {
		text = strings.TrimSpace(text)
		if found := heading.FindStringSubmatch(text); found != nil {
			chapters = append(chapters, chapter{letter: found[1], title: found[2]})
			continue
		}
		found := row.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		id := found[1]
		if len(chapters) == 0 || !strings.HasPrefix(id, chapters[len(chapters)-1].letter) {
			return nil, fmt.Errorf("place id %s: it stands under no heading of its letter", id)
		}
		if seen[id] {
			return nil, fmt.Errorf("place id %s: it is there twice", id)
		}
		seen[id] = true
		last := &chapters[len(chapters)-1]
		last.lines = append(last.lines, line{id: id, capability: firstCell(found[2])})
	}
	if len(seen) == 0 {
		return nil, errors.New("no id found")
	}
	return chapters, nil
}

// firstCell ends at the first bar that Markdown would take for a border: an escaped one belongs to the text.
func firstCell(cells string) string {
	for at := 0; at < len(cells); at++ {
		if cells[at] == '|' && (at == 0 || cells[at-1] != '\\') {
			cells = cells[:at]
		}
	}
	return strings.ReplaceAll(strings.TrimSpace(cells), `\|`, "|")
}
