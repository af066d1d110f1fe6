package worker_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/internal/testkit/programtest"
	"github.com/swarm-io/swarm-operator/internal/testkit/stuck"
	"github.com/swarm-io/swarm-operator/worker"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// F3: the container runtime reads neither output nor log when the Lease is lost. The program is gone before others can have the Lease.
func TestABlockedOutputDoesNotDelayTheFence(t *testing.T) {
	for name, c := range map[string]struct {
		handler func(*stuck.Pipe) slog.Handler
		abort   bool
	}{
		"output and log":              {func(to *stuck.Pipe) slog.Handler { return slog.NewTextHandler(to, nil) }, false},
		"the worker's main goroutine": {func(to *stuck.Pipe) slog.Handler { return stuck.Handler{Handler: slog.DiscardHandler, Pipe: to} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, leaseStore, out, aborted := newTestWorker(t), &fakeLease{}, &stuck.Pipe{}, make(chan string, 16)
			w.config.Lease, w.config.LeaseStore, w.config.Grace = lease.MinDuration, leaseStore, time.Minute
			w.config.Log = slog.New(c.handler(out))
			w.config.Abort = func(reason string) { aborted <- reason }
			jobs, err := worker.Command(w.config, out, out, "bash", "-c", `echo $$ >$1/pids; trap '' TERM; while :; do echo x; sleep 0.01; done`,
				"bash", w.dir())
			must(t, err)
			w.start(t, jobs)
			w.publish(t, 1, "a")
			w.awaitVersion(t, 1)
			pid := w.awaitPIDs(t, "pids")[0]
			out.Block(t)
			leaseStore.setUnavailable(true)
			left := time.Now()
			programtest.Eventually(t, "the program is gone", func() bool { return !isAlive(pid) })
			if took := time.Since(left); took > lease.TakeoverDelay(lease.MinDuration) {
				t.Errorf("it took %s", took)
			}
			if c.abort {
				<-aborted // the stop of the job is not confirmed yet
				w.aborted = true
			}
			leaseStore.setUnavailable(false)
		})
	}
}
