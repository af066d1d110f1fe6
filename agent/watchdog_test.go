package agent_test

import (
	"errors"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/internal/link/linktest"
	"github.com/swarm-io/swarm-operator/internal/process/hostclock"
	"github.com/swarm-io/swarm-operator/internal/testkit/stuck"
)

// leaseMargin is how much longer than the lease the operator waits before it reassigns work.
const leaseMargin = 1500 * time.Millisecond

// ignoreSIGTERM is a program that ignores SIGTERM.
const ignoreSIGTERM = `trap '' TERM; echo $$ >$SWARM_STATE/pids; while :; do sleep 0.02; done`

// startUnstoppable gives the agent a program that ignores SIGTERM, and returns its process when a heartbeat was just echoed.
func (a *testAgent) startUnstoppable(t *testing.T) int {
	t.Helper()
	a.AwaitCredit(t, 2)
	a.send(t, linktest.Assign(linktest.Attempt("t", 1), "{}"))
	pid, err := strconv.Atoi(a.readWords(t, "pids")[0])
	if err != nil {
		t.Fatal(err)
	}
	echoes := a.MetricSum(t, "swarm_link_messages_total", "echo")
	linktest.Eventually(t, "an echo", func() bool { return a.MetricSum(t, "swarm_link_messages_total", "echo") > echoes })
	return pid
}

// assertFenced checks that the process has ended by the time the operator may reassign its work, and that the agent survives.
func (a *testAgent) assertFenced(t *testing.T, pid int) {
	t.Helper()
	heard, _ := a.LastHeard(coder)
	linktest.Eventually(t, "the program is gone", func() bool { return !isAlive(pid) || time.Since(heard) > lease+5*time.Second })
	if took := time.Since(heard); took > lease+leaseMargin {
		t.Errorf("the program was gone %v after the last heartbeat, with a lease of %v", took, lease)
	}
	select {
	case reason := <-a.aborted:
		t.Errorf("the process ended though the program could be killed: %s", reason)
	default:
	}
}

// F3: the container runtime hangs and does not read standard error.
func TestABlockedLogDoesNotDelayTheFence(t *testing.T) {
	t.Parallel()
	a, log := newTestAgent(t, linktest.WithLease(lease)), &stuck.Pipe{}
	a.config.Log = slog.New(slog.NewTextHandler(log, nil))
	a.start(t, a.scriptHandler(t, ignoreSIGTERM))
	pid := a.startUnstoppable(t)
	log.Block(t)
	a.network.Freeze()
	a.assertFenced(t, pid)
}

// F3: the journal is on a volume that hangs when another attempt ends.
func TestABlockedJournalDoesNotDelayTheFence(t *testing.T) {
	t.Parallel()
	a := newTestAgent(t, linktest.WithLease(lease))
	if err := syscall.Mkfifo(a.config.Journal, 0o600); err != nil {
		t.Fatal(err)
	}
	journal, err := os.OpenFile(a.config.Journal, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = journal.Close() })
	a.start(t, a.scriptHandler(t, `read -r name; test $name = stubborn || exec sleep 0.2; `+ignoreSIGTERM))
	a.AwaitCredit(t, 2)
	a.send(t, linktest.Assign(linktest.Attempt("t", 1), "stubborn\n"))
	pid, err := strconv.Atoi(a.readWords(t, "pids")[0])
	if err != nil {
		t.Fatal(err)
	}
	a.send(t, linktest.Assign(linktest.Attempt("u", 2), "short\n"))
	fillPipe(t, journal)
	a.AwaitResult(t, 1, 2)
	a.network.Freeze()
	a.assertFenced(t, pid)
}

// fillPipe writes into a pipe until it is full.
func fillPipe(t *testing.T, pipe *os.File) {
	t.Helper()
	if err := pipe.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := pipe.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the pipe is not full: %v", err)
	}
}

// Whatever the agent's main goroutine waits for, the watchdog does not.
func TestAStuckAgentIsFenced(t *testing.T) {
	t.Parallel()
	a, log := newTestAgent(t, linktest.WithLease(lease)), &stuck.Pipe{}
	a.config.Log = slog.New(stuck.Handler{Handler: slog.DiscardHandler, Pipe: log})
	a.start(t, a.scriptHandler(t, ignoreSIGTERM))
	pid := a.startUnstoppable(t)
	log.Block(t)
	a.send(t, linktest.Drain(time.Hour)) // which is logged
	a.network.Freeze()
	a.assertFenced(t, pid)
}

// F9: the machine was suspended. The time since boot has jumped, timers have not: those of the lease would be an hour late. The agent's
// main goroutine is stuck, because it would look at the clock before its next heartbeat. The tests of the watchdog show how soon it reacts.
func TestASuspendedMachineIsFencedWhenItWakes(t *testing.T) {
	t.Parallel()
	a, log := newTestAgent(t, linktest.WithLease(time.Hour)), &stuck.Pipe{}
	var suspended atomic.Int64
	a.config.SetClock(func() time.Duration { return hostclock.BootTime() + time.Duration(suspended.Load()) })
	a.config.Log = slog.New(stuck.Handler{Handler: slog.DiscardHandler, Pipe: log})
	a.start(t, a.scriptHandler(t, ignoreSIGTERM))
	pid := a.startUnstoppable(t)
	log.Block(t)
	a.send(t, linktest.Drain(time.Hour)) // which is logged
	linktest.Eventually(t, "the main goroutine is stuck", log.HasBlockedWrite)
	if !isAlive(pid) {
		t.Fatal("the program ended before the suspension")
	}
	suspended.Store(int64(2 * time.Hour))
	linktest.Eventually(t, "the program is gone", func() bool { return !isAlive(pid) })
}
