package process

import (
	"bytes"
	"io"
	"sync"
)

// maxLineBytes is how much of an unfinished line is held back; a longer line is cut.
const maxLineBytes = 16 << 10

// A LineSink receives the output of several programs. Each line reaches it whole, in one call.
type LineSink struct {
	To io.Writer
	mu sync.Mutex
}

// WithLabel returns a writer whose lines reach the sink with a label in front.
func (s *LineSink) WithLabel(label string) *LineWriter {
	return &LineWriter{sink: s, label: "[" + label + "] "}
}

// LineWriter splits what is written into lines.
type LineWriter struct {
	sink    *LineSink
	label   string
	mu      sync.Mutex // a descendant may still write when the rest is flushed
	partial []byte
}

// Write never fails: a program must not end because its output is not read.
func (l *LineWriter) Write(text []byte) (int, error) {
	written := len(text)
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(text) > 0 {
		room := min(len(text), maxLineBytes-len(l.partial))
		line, _, complete := bytes.Cut(text[:room], []byte("\n"))
		l.partial = append(l.partial, line...)
		text = text[len(line):]
		if complete {
			text = text[1:]
		}
		if complete || len(l.partial) == maxLineBytes {
			l.writeLine()
		}
	}
	return written, nil
}

// Flush writes an unfinished last line.
func (l *LineWriter) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.partial) > 0 {
		l.writeLine()
	}
}

func (l *LineWriter) writeLine() {
	line := append(append([]byte(l.label), l.partial...), '\n')
	l.partial = l.partial[:0]
	l.sink.mu.Lock()
	defer l.sink.mu.Unlock()
	_, _ = l.sink.To.Write(line)
}
