// Package stuck simulates standard output and standard error that the container runtime does not read.
package stuck

import (
	"context"
	"log/slog"
	"sync"
	"testing"
)

// A Pipe accepts everything until it is blocked.
type Pipe struct {
	mu       sync.Mutex
	released chan struct{}
	blocked  bool // a write was blocked
}

// Write implements io.Writer. While the pipe is blocked it does not return.
func (p *Pipe) Write(text []byte) (int, error) {
	p.mu.Lock()
	stuck := p.released
	p.blocked = p.blocked || stuck != nil
	p.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	return len(text), nil
}

// Block makes writes block until the test ends.
func (p *Pipe) Block(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	stuck := make(chan struct{})
	p.released = stuck
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(stuck)
		p.released = nil
	})
}

// HasBlockedWrite reports whether a write waits, or has waited.
func (p *Pipe) HasBlockedWrite() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.blocked
}

// A Handler blocks where no queue helps: in Enabled.
type Handler struct {
	slog.Handler
	Pipe *Pipe
}

// Enabled implements slog.Handler.
func (h Handler) Enabled(context.Context, slog.Level) bool {
	_, _ = h.Pipe.Write(nil)
	return true
}
