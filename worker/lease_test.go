package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/internal/testkit/programtest"
	"github.com/swarm-io/swarm-operator/worker"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// fakeLease is a Lease without competitors.
type fakeLease struct {
	mu          sync.Mutex
	record      lease.Record
	unavailable bool
}

func (p *fakeLease) setUnavailable(unavailable bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unavailable = unavailable
}

func (p *fakeLease) holderUID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.record.Holder
}

func (p *fakeLease) Read(context.Context) (lease.Record, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.unavailable:
		return lease.Record{}, errors.New("the API server is away")
	case p.record.Holder == "":
		return lease.Record{}, lease.ErrNotFound
	}
	return p.record, nil
}

func (p *fakeLease) Write(_ context.Context, record lease.Record) (lease.Record, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unavailable {
		return lease.Record{}, errors.New("the API server is away")
	}
	record.Version += "+"
	p.record = record
	return record, nil
}

func (p *fakeLease) PodExists(context.Context) (bool, error) { return true, nil }

// End to end: a program that ignores SIGTERM, and has a grace period of a minute, is killed before the Lease is over.
func TestAWorkerWithALease(t *testing.T) {
	t.Parallel()
	w, leaseStore := newTestWorker(t), &fakeLease{}
	w.config.Lease, w.config.LeaseStore, w.config.Grace = lease.MinDuration, leaseStore, time.Minute
	jobs, err := worker.Command(w.config, w.output, w.output, "bash", "-c",
		`echo $$ >$1/pids; test -e $1/once && exec sleep 1000; touch $1/once; trap '' TERM; while :; do sleep 1000; done`, "bash", w.dir())
	must(t, err)
	w.start(t, jobs)
	w.publish(t, 1, "a")
	w.awaitVersion(t, 1)
	if leaseStore.holderUID() != "u-1" {
		t.Fatalf("it works without a Lease: held by %q", leaseStore.holderUID())
	}
	first := w.awaitPIDs(t, "pids")[0]
	leaseStore.setUnavailable(true)
	lostAt := time.Now()
	programtest.Eventually(t, "it stops by itself", func() bool { return !isAlive(first) })
	if took := time.Since(lostAt); took > lease.TakeoverDelay(lease.MinDuration) {
		t.Errorf("it took %s, and others may have its jobs after %s", took, lease.TakeoverDelay(lease.MinDuration))
	}
	if health := w.get(t, "/internal/health"); !strings.Contains(health, "the API server is away: nothing runs without it") {
		t.Errorf("it says %s", health)
	}
	leaseStore.setUnavailable(false)
	programtest.Eventually(t, "it starts again", func() bool { return strings.Contains(w.get(t, "/internal/health"), `"running":1`) })
	if health := w.get(t, "/internal/health"); health != `{"status":"ok","jobs":1,"running":1}` {
		t.Errorf("it says %s", health)
	}
	must(t, w.stopWorker())
	if leaseStore.holderUID() != "" {
		t.Errorf("at the end it is held by %q", leaseStore.holderUID())
	}
}

func TestALeaseNeedsItsTime(t *testing.T) {
	w := newTestWorker(t)
	t.Cleanup(func() { _ = w.config.Listener.Close() })
	w.config.Lease = time.Second
	if err := worker.RunWith(t.Context(), w.config, make(callRecorder)); err == nil ||
		!strings.Contains(err.Error(), "whole seconds from 3s to 10m0s, not 1s") {
		t.Errorf("got %v", err)
	}
}

// Without its Lease a worker could run jobs that others have by now.
func TestNothingRunsWhereThereCanBeNoLease(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	w := newTestWorker(t)
	w.config.Lease = lease.MinDuration
	w.publish(t, 1, "a")
	jobs := make(callRecorder, 1)
	err := worker.RunWith(t.Context(), w.config, jobs)
	if err == nil || !strings.Contains(err.Error(), "keep a Lease: find the API server") {
		t.Errorf("got %v", err)
	}
	if len(jobs) > 0 {
		t.Errorf("%s without a Lease", <-jobs)
	}
}
