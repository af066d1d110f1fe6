package main

import (
	"strconv"
	"strings"
)

// codes are the terminal's codes for styles.
var codes = map[style]string{bold: "1", faint: "2", good: "32", busy: "33", bad: "31", urgent: "1;35"}

// ansi is the line for a terminal that knows colours.
func (l line) ansi() string {
	var out strings.Builder
	for _, p := range l {
		code, styled := codes[p.style]
		if !styled || p.text == "" {
			out.WriteString(p.text)
			continue
		}
		out.WriteString("\x1b[" + code + "m" + p.text + "\x1b[0m")
	}
	return out.String()
}

// A painter writes frames over each other, and leaves the last one standing.
type painter struct {
	colours bool
	drawn   int // lines of the frame that stands there now
}

const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// frame is what to send to the terminal so that the lines stand where the ones before them stood.
func (p *painter) frame(lines []line, height int) string {
	if room := height - 1; len(lines) > room && room > 0 {
		lines = lines[:room] // what has scrolled off cannot be drawn over
	}
	var out strings.Builder
	if p.drawn > 0 {
		out.WriteString("\r\x1b[" + strconv.Itoa(p.drawn) + "A")
	}
	for _, each := range lines {
		out.WriteString(p.renderLine(each) + clearLine + "\r\n")
	}
	out.WriteString(clearBelow)
	p.drawn = len(lines)
	return out.String()
}

func (p *painter) renderLine(each line) string {
	if p.colours {
		return each.ansi()
	}
	return each.text()
}
