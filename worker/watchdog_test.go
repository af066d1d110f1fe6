package worker_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/worker"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// A pipe is standard output or standard error: while it is stuck, because the container runtime does not read it, writes block.
type pipe struct {
	mu    sync.Mutex
	stuck chan struct{}
}

func (p *pipe) Write(text []byte) (int, error) {
	p.mu.Lock()
	stuck := p.stuck
	p.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	return len(text), nil
}

// block makes writes block until the test ends.
func (p *pipe) block(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	stuck := make(chan struct{})
	p.stuck = stuck
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(stuck)
		p.stuck = nil
	})
}

// A stuckHandler blocks where no queue helps: when it is asked whether a record is wanted.
type stuckHandler struct {
	slog.Handler
	pipe *pipe
}

func (h stuckHandler) Enabled(context.Context, slog.Level) bool {
	_, _ = h.pipe.Write(nil)
	return true
}

// F3: the container runtime reads neither output nor log when the Lease is lost. The program is gone before others can have the Lease.
func TestABlockedOutputDoesNotDelayTheFence(t *testing.T) {
	for name, c := range map[string]struct {
		handler func(*pipe) slog.Handler
		abort   bool
	}{
		"output and log":              {func(to *pipe) slog.Handler { return slog.NewTextHandler(to, nil) }, false},
		"the worker's main goroutine": {func(to *pipe) slog.Handler { return stuckHandler{slog.DiscardHandler, to} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, held, out, aborted := begin(t), &paper{}, &pipe{}, make(chan string, 16)
			w.config.Lease, w.config.Records, w.config.Grace = lease.Shortest, held, time.Minute
			w.config.Log = slog.New(c.handler(out))
			w.config.Abort = func(reason string) { aborted <- reason }
			jobs, err := worker.Command(w.config, out, out, "bash", "-c", `echo $$ >$1/pids; trap '' TERM; while :; do echo x; sleep 0.01; done`, "bash", w.folder())
			must(t, err)
			w.run(t, jobs)
			w.publish(t, 1, "a")
			w.awaitVersion(t, 1)
			pid := w.pids(t, "pids")[0]
			out.block(t)
			held.leave(true)
			left := time.Now()
			eventually(t, "the program is gone", func() bool { return !alive(pid) })
			if took := time.Since(left); took > lease.Silence(lease.Shortest) {
				t.Errorf("it took %s", took)
			}
			if c.abort {
				<-aborted // nobody has confirmed that the job has stopped
				w.fails = true
			}
			held.leave(false)
		})
	}
}
