package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// A display shows scenes, one after the other.
type display interface {
	draw(now demoState)
	close()
}

// newDisplay draws in place on a terminal, and prints what changes anywhere else.
func newDisplay(out *os.File) display {
	if term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb" {
		fmt.Fprint(out, hideCursor)
		return &terminal{out: out, painter: painter{colours: os.Getenv("NO_COLOR") == ""}}
	}
	return &log{out: out}
}

type terminal struct {
	out     *os.File
	painter painter
}

func (t *terminal) draw(state demoState) {
	width, height, err := term.GetSize(int(t.out.Fd()))
	if err != nil || width < 1 {
		width, height = 80, 24
	}
	fmt.Fprint(t.out, t.painter.frame(screen(state, width), height))
}

// close also removes the ^C that a terminal echoes.
func (t *terminal) close() { fmt.Fprint(t.out, "\r"+clearLine+showCursor) }

type log struct {
	out  io.Writer
	last demoState
}

func (l *log) draw(now demoState) {
	for _, each := range changes(l.last, now) {
		fmt.Fprintln(l.out, each)
	}
	l.last = now
}

func (*log) close() {}
