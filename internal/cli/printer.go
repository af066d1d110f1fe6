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

// color is the color of a text, where colors are supported.
type color string

// The tones, as terminal escape codes.
const (
	noColor color = ""
	green   color = "32"
	yellow  color = "33"
	red     color = "31"
	dim     color = "2"
)

// cell is a text in a table.
type cell struct {
	text  string
	color color
}

// emptyValue stands for an empty value.
const emptyValue = "-"

// cellOf returns a cell without color.
func cellOf(value any) cell { return cell{text: fmt.Sprint(value)} }

// printer is human-readable output. Text from the cluster cannot send control sequences to the terminal.
type printer struct {
	out     io.Writer
	colored bool
}

func (s *session) newPrinter() printer { return printer{s.Out, printers.AllowsColorOutput(s.Out)} }

func (p printer) line(format string, arguments ...any) { fmt.Fprintf(p.out, format+"\n", arguments...) }

func (p printer) colorize(c cell) string {
	text := visible(c.text)
	if !p.colored || c.color == noColor {
		return text
	}
	return "\x1b[" + string(c.color) + "m" + text + "\x1b[0m"
}

// table writes rows under their headers, as kubectl does.
func (p printer) table(heads []string, rows [][]cell) {
	widths := make([]int, len(heads))
	lines := make([][]cell, 0, len(rows)+1)
	lines = append(lines, cellsOf(heads))
	lines = append(lines, rows...)
	for _, row := range lines {
		for n, c := range row {
			widths[n] = max(widths[n], utf8.RuneCountInString(visible(c.text)))
		}
	}
	for _, row := range lines {
		var line strings.Builder
		for n, c := range row {
			line.WriteString(p.colorize(c))
			if n < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[n]-utf8.RuneCountInString(visible(c.text))+3))
			}
		}
		fmt.Fprintln(p.out, line.String())
	}
}

func cellsOf(names []string) []cell {
	cells := make([]cell, len(names))
	for n, name := range names {
		cells[n] = cellOf(name)
	}
	return cells
}

// visible escapes the invisible characters of a text.
func visible(text string) string {
	if text == "" {
		return emptyValue
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
