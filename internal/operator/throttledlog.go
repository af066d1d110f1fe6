package operator

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// throttleInterval is the interval between lines that anyone on the network can cause.
const throttleInterval = time.Minute

// A throttledLog keeps lines that anyone can cause from filling the log. It writes the first one at once, and then at most one per minute,
// with the number of lines suppressed.
type throttledLog struct {
	mu           sync.Mutex
	throttled    bool
	pendingWrite func(more int)
	suppressed   int // lines since the last one written
}

// log writes a line, now or at the end of the minute, and passes the number of others that it stands for.
func (q *throttledLog) log(write func(others int)) {
	q.mu.Lock()
	if q.throttled {
		q.pendingWrite = write
		q.suppressed++
		q.mu.Unlock()
		return
	}
	q.throttled = true
	time.AfterFunc(throttleInterval, q.flush)
	q.mu.Unlock()
	write(0)
}

func (q *throttledLog) flush() {
	q.mu.Lock()
	write, suppressed := q.pendingWrite, q.suppressed
	q.pendingWrite, q.suppressed, q.throttled = nil, 0, suppressed > 0
	if suppressed > 0 {
		time.AfterFunc(throttleInterval, q.flush)
	}
	q.mu.Unlock()
	if suppressed > 0 {
		write(suppressed - 1)
	}
}

// throttledWriter is for loggers that write plain text, such as those of net/http and gRPC. Failed handshakes are limited separately from
// everything else, and panics never.
type throttledWriter struct {
	next              io.Writer
	handshakes, other throttledLog
}

var handshakeText, panicText = []byte("TLS handshake error"), []byte("panic serving")

// Write implements io.Writer.
func (w *throttledWriter) Write(line []byte) (int, error) {
	if bytes.Contains(line, panicText) {
		return w.next.Write(line)
	}
	target, text := &w.other, bytes.TrimRight(bytes.Clone(line), "\n")
	if bytes.Contains(line, handshakeText) {
		target = &w.handshakes
	}
	target.log(func(others int) {
		if others > 0 {
			text = fmt.Appendf(text, " (and %d more in the last minute)", others)
		}
		_, _ = w.next.Write(append(text, '\n'))
	})
	return len(line), nil
}

// throttledSink limits errors.
type throttledSink struct {
	logr.LogSink
	errors *throttledLog
}

// Error implements logr.LogSink.
func (s throttledSink) Error(err error, message string, pairs ...any) {
	s.errors.log(func(others int) {
		if others > 0 {
			pairs = append(pairs, "others", others)
		}
		s.LogSink.Error(err, message, pairs...)
	})
}
