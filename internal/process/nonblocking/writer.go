package nonblocking

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"time"
)

const (
	// maxQueuedBytes is how much may wait for one destination.
	maxQueuedBytes = 1 << 20
	// recordBytes is roughly the size of a log record without its message.
	recordBytes = 512
)

// A Writer forwards writes through a queue.
type Writer struct {
	*Queue
	to      io.Writer
	timeout time.Duration
}

// NewWriter returns a writer whose callers wait for room for at most patience. Report is called when writes succeed after some were
// dropped.
func NewWriter(to io.Writer, timeout time.Duration, report func(dropped int)) *Writer {
	return &Writer{Queue: NewQueue(maxQueuedBytes, report), to: to, timeout: timeout}
}

// Write never fails, and never writes in part: a call is forwarded as a whole or dropped.
func (w *Writer) Write(text []byte) (int, error) {
	copied := bytes.Clone(text)
	w.Put(w.timeout, len(copied), func() { _, _ = w.to.Write(copied) })
	return len(text), nil
}

// NewLogger returns a logger that never blocks. Close the queue to write the last records. The logger reports how many records were dropped
// as soon as the log is read again.
func NewLogger(log *slog.Logger) (*slog.Logger, *Queue) {
	queue := NewQueue(maxQueuedBytes, func(dropped int) {
		log.Warn("dropped log records because they were not read", "dropped", dropped)
	})
	return slog.New(&handler{inner: log.Handler(), queue: queue}), queue
}

// LogBeforeExit logs why a process must end at once. It returns after at most its patience, even if the log blocks.
func LogBeforeExit(queue *Queue, timeout time.Duration, log func()) {
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		log()
		queue.Flush(timeout)
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-logged:
	case <-timer.C:
	}
}

// A handler queues records for another handler.
type handler struct {
	inner slog.Handler
	queue *Queue
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.inner.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, record slog.Record) error {
	copied, ctx := record.Clone(), context.WithoutCancel(ctx)
	h.queue.Put(0, recordBytes+len(copied.Message), func() { _ = h.inner.Handle(ctx, copied) })
	return nil
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{inner: h.inner.WithAttrs(attrs), queue: h.queue}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{inner: h.inner.WithGroup(name), queue: h.queue}
}
