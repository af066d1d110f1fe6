package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/cli-runtime/pkg/printers"
)

// tone is the color of a text, where colors are supported.
type tone string

// The tones, as terminal escape codes.
const (
	plain   tone = ""
	good    tone = "32"
	doubt   tone = "33"
	bad     tone = "31"
	subdued tone = "2"
)

// cell is a text in a table.
type cell struct {
	text string
	tone tone
}

// none stands for an empty value.
const none = "-"

// in returns a cell without color.
func in(value any) cell { return cell{text: fmt.Sprint(value)} }

// page is human-readable output. Text from the cluster cannot send control sequences to the terminal.
type page struct {
	to      io.Writer
	colours bool
}

func (s *session) page() page { return page{s.Out, printers.AllowsColorOutput(s.Out)} }

func (p page) line(format string, arguments ...any) { fmt.Fprintf(p.to, format+"\n", arguments...) }

func (p page) painted(c cell) string {
	text := visible(c.text)
	if !p.colours || c.tone == plain {
		return text
	}
	return "\x1b[" + string(c.tone) + "m" + text + "\x1b[0m"
}

// table writes rows under their headers, as kubectl does.
func (p page) table(heads []string, rows [][]cell) {
	widths := make([]int, len(heads))
	all := make([][]cell, 0, len(rows)+1)
	all = append(all, namesToCells(heads))
	all = append(all, rows...)
	for _, row := range all {
		for n, c := range row {
			widths[n] = max(widths[n], utf8.RuneCountInString(visible(c.text)))
		}
	}
	for _, row := range all {
		var line strings.Builder
		for n, c := range row {
			line.WriteString(p.painted(c))
			if n < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[n]-utf8.RuneCountInString(visible(c.text))+3))
			}
		}
		fmt.Fprintln(p.to, line.String())
	}
}

func namesToCells(names []string) []cell {
	cells := make([]cell, len(names))
	for n, name := range names {
		cells[n] = in(name)
	}
	return cells
}

// visible escapes the invisible characters of a text.
func visible(text string) string {
	if text == "" {
		return none
	}
	if !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }) {
		return text
	}
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}

// count returns a number with its noun.
func count(number int, noun string) string {
	if number == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", number, noun)
}
