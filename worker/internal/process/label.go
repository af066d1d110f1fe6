package process

import (
	"bytes"
	"io"
	"sync"
)

// longestLine is how much is kept back until its line ends; a longer line is cut.
const longestLine = 16 << 10

// A Sink is where several programs write. Each line reaches it whole, by one call.
type Sink struct {
	To io.Writer
	mu sync.Mutex
}

// Labelled is a writer whose lines reach the sink behind a label.
func (s *Sink) Labelled(label string) *Lines {
	return &Lines{sink: s, label: "[" + label + "] "}
}

// Lines cuts what is written into lines.
type Lines struct {
	sink    *Sink
	label   string
	mu      sync.Mutex // a descendant may still write when the rest is flushed
	started []byte
}

// Write never fails: a program must not end because its output is not read.
func (l *Lines) Write(text []byte) (int, error) {
	written := len(text)
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(text) > 0 {
		room := min(len(text), longestLine-len(l.started))
		line, _, ends := bytes.Cut(text[:room], []byte("\n"))
		l.started = append(l.started, line...)
		text = text[len(line):]
		if ends {
			text = text[1:]
		}
		if ends || len(l.started) == longestLine {
			l.emit()
		}
	}
	return written, nil
}

// Flush writes an unfinished last line.
func (l *Lines) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.started) > 0 {
		l.emit()
	}
}

func (l *Lines) emit() {
	line := append(append([]byte(l.label), l.started...), '\n')
	l.started = l.started[:0]
	l.sink.mu.Lock()
	defer l.sink.mu.Unlock()
	_, _ = l.sink.To.Write(line)
}
