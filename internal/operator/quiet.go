package operator

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// quietFor is the interval between lines that anyone on the network can cause.
const quietFor = time.Minute

// A quietLog keeps lines that anyone can cause from filling the log. It writes the first one at once, and then at most one per minute,
// with the number of lines suppressed.
type quietLog struct {
	mu      sync.Mutex
	waiting bool
	last    func(more int)
	held    int // lines since the last one written
}

// note writes a line, now or at the end of the minute, and passes the number of others that it stands for.
func (q *quietLog) note(write func(others int)) {
	q.mu.Lock()
	if q.waiting {
		q.last = write
		q.held++
		q.mu.Unlock()
		return
	}
	q.waiting = true
	time.AfterFunc(quietFor, q.report)
	q.mu.Unlock()
	write(0)
}

func (q *quietLog) report() {
	q.mu.Lock()
	write, held := q.last, q.held
	q.last, q.held, q.waiting = nil, 0, held > 0
	if held > 0 {
		time.AfterFunc(quietFor, q.report)
	}
	q.mu.Unlock()
	if held > 0 {
		write(held - 1)
	}
}

// quietWriter is for loggers that write plain text, such as those of net/http and gRPC. Failed handshakes are limited separately from
// everything else, and panics never.
type quietWriter struct {
	next              io.Writer
	handshakes, other quietLog
}

var handshake, panicked = []byte("TLS handshake error"), []byte("panic serving")

// Write implements io.Writer.
func (w *quietWriter) Write(line []byte) (int, error) {
	if bytes.Contains(line, panicked) {
		return w.next.Write(line)
	}
	kind, text := &w.other, bytes.TrimRight(bytes.Clone(line), "\n")
	if bytes.Contains(line, handshake) {
		kind = &w.handshakes
	}
	kind.note(func(others int) {
		if others > 0 {
			text = fmt.Appendf(text, " (and %d more in the last minute)", others)
		}
		_, _ = w.next.Write(append(text, '\n'))
	})
	return len(line), nil
}

// quietSink limits errors.
type quietSink struct {
	logr.LogSink
	errors *quietLog
}

// Error implements logr.LogSink.
func (s quietSink) Error(err error, message string, pairs ...any) {
	s.errors.note(func(others int) {
		if others > 0 {
			pairs = append(pairs, "others", others)
		}
		s.LogSink.Error(err, message, pairs...)
	})
}
