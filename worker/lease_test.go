package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/worker"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// paper is a Lease without competitors.
type paper struct {
	mu     sync.Mutex
	record lease.Record
	away   bool
}

func (p *paper) leave(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
}

func (p *paper) holder() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.record.Holder
}

func (p *paper) Read(context.Context) (lease.Record, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.away:
		return lease.Record{}, errors.New("the API server is away")
	case p.record.Holder == "":
		return lease.Record{}, lease.ErrNone
	}
	return p.record, nil
}

func (p *paper) Write(_ context.Context, record lease.Record) (lease.Record, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return lease.Record{}, errors.New("the API server is away")
	}
	record.Version += "+"
	p.record = record
	return record, nil
}

func (p *paper) Present(context.Context) (bool, error) { return true, nil }

// The whole way: a program that ignores SIGTERM, and would have a minute for it, is gone before the Lease is over.
func TestAWorkerWithALease(t *testing.T) {
	t.Parallel()
	w, held := begin(t), &paper{}
	w.config.Lease, w.config.Records, w.config.Grace = lease.Shortest, held, time.Minute
	jobs, err := worker.Command(w.config, w.out, w.out, "bash", "-c", `echo $$ >$1/pids; test -e $1/once && exec sleep 1000; touch $1/once; trap '' TERM; while :; do sleep 1000; done`, "bash", w.folder())
	must(t, err)
	w.run(t, jobs)
	w.publish(t, 1, "a")
	w.awaitVersion(t, 1)
	if held.holder() != "u-1" {
		t.Fatalf("it works without a Lease: held by %q", held.holder())
	}
	first := w.pids(t, "pids")[0]
	held.leave(true)
	left := time.Now()
	eventually(t, "it stops by itself", func() bool { return !alive(first) })
	if took := time.Since(left); took > lease.Silence(lease.Shortest) {
		t.Errorf("it took %s, and others may have its jobs after %s", took, lease.Silence(lease.Shortest))
	}
	if said := w.ask(t, "/internal/health"); !strings.Contains(said, "the API server is away: nothing runs without it") {
		t.Errorf("it says %s", said)
	}
	held.leave(false)
	eventually(t, "it starts again", func() bool { return strings.Contains(w.ask(t, "/internal/health"), `"running":1`) })
	if said := w.ask(t, "/internal/health"); said != `{"status":"ok","jobs":1,"running":1}` {
		t.Errorf("it says %s", said)
	}
	must(t, w.stop())
	if held.holder() != "" {
		t.Errorf("at the end it is held by %q", held.holder())
	}
}

func TestALeaseNeedsItsTime(t *testing.T) {
	w := begin(t)
	t.Cleanup(func() { _ = w.config.Listener.Close() })
	w.config.Lease = time.Second
	if err := worker.RunWith(t.Context(), w.config, make(notes)); err == nil || !strings.Contains(err.Error(), "whole seconds from 3s to 10m0s, not 1s") {
		t.Errorf("got %v", err)
	}
}

// Without its Lease a worker could run jobs that others have by now.
func TestNothingRunsWhereThereCanBeNoLease(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	w := begin(t)
	w.config.Lease = lease.Shortest
	w.publish(t, 1, "a")
	jobs := make(notes, 1)
	err := worker.RunWith(t.Context(), w.config, jobs)
	if err == nil || !strings.Contains(err.Error(), "keep a Lease: find the API server") {
		t.Errorf("got %v", err)
	}
	if len(jobs) > 0 {
		t.Errorf("%s without a Lease", <-jobs)
	}
}
