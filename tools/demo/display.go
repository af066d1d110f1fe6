package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// A display shows scenes, one after the other.
type display interface {
	show(now scene)
	close()
}

// displayOn draws in place on a terminal, and prints what changes anywhere else.
func displayOn(out *os.File) display {
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

func (t *terminal) show(now scene) {
	width, height, err := term.GetSize(int(t.out.Fd()))
	if err != nil || width < 1 {
		width, height = 80, 24
	}
	fmt.Fprint(t.out, t.painter.frame(screen(now, width), height))
}

// close also removes the ^C that a terminal echoes.
func (t *terminal) close() { fmt.Fprint(t.out, "\r"+clearLine+showCursor) }

type log struct {
	out    io.Writer
	before scene
}

func (l *log) show(now scene) {
	for _, each := range changes(l.before, now) {
		fmt.Fprintln(l.out, each)
	}
	l.before = now
}

func (*log) close() {}
