package gang

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/swarm-io/swarm-operator/worker"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// processes are numbered, so that entries of a dead one do not count.
var processes atomic.Int64

// process is a worker's program from its start to its end. It does nothing but note what it should do.
type process struct {
	worker *Worker
	number int64
	inside string // where the SDK answers
	cancel context.CancelFunc
	ended  chan struct{}
}

// spawn starts a process on the files that there are.
func (w *Worker) spawn(ctx context.Context) (*process, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &process{worker: w, number: processes.Add(1), inside: listener.Addr().String(), cancel: cancel, ended: make(chan struct{})}
	config := worker.Config{
		Worker: w.name, PodUID: string(w.uid), Listener: listener, Log: w.gang.log.With("pod", w.namespace+"/"+w.name, "process", p.number),
		File: filepath.Join(w.home, listFile), VersionFile: filepath.Join(w.home, floorFile),
		Lease: time.Duration(w.lease) * time.Second, LeaseStore: p.records(),
		Abort: func(string) {}, // others live in this process too
	}
	w.gang.work.Go(func() {
		defer close(p.ended)
		if err := worker.RunWith(ctx, config, p); err != nil && !p.dead() {
			w.gang.log.Error("a worker has failed", "pod", w.name, "error", err)
		}
	})
	return p, nil
}

func (p *process) entry(event, job string) Entry {
	return Entry{Event: event, Namespace: p.worker.namespace, Worker: p.worker.name, UID: string(p.worker.uid), Process: p.number, Job: job}
}

// Start is called by the SDK.
func (p *process) Start(_ context.Context, job string) error {
	p.worker.gang.notes.add(p.entry(started, job))
	return nil
}

// Stop is called by the SDK. A fragile worker dies before it can acknowledge.
func (p *process) Stop(_ context.Context, job string) error {
	p.worker.gang.notes.add(p.entry(stopped, job))
	if p.worker.fragile.CompareAndSwap(true, false) {
		go p.worker.Restart()
		return errors.New("the process dies")
	}
	return nil
}

// records are the worker's Lease on the API server, for as long as the process lives and can reach it.
func (p *process) records() lease.Store {
	web := *p.worker.gang.web
	web.Transport = wire{p.worker.gang.web.Transport, func() bool { return p.worker.severed.Load() || p.dead() }}
	return &lease.API{Client: &web, Server: p.worker.gang.cluster.Host, Namespace: p.worker.namespace, Pod: p.worker.name, UID: string(p.worker.uid)}
}

// wire is a way to the API server that can be cut.
type wire struct {
	http.RoundTripper
	cut func() bool
}

func (w wire) RoundTrip(request *http.Request) (*http.Response, error) {
	if w.cut() {
		return nil, errors.New("the network is cut")
	}
	return w.RoundTripper.RoundTrip(request)
}

func (p *process) dead() bool { return p.worker.gang.notes.dead(p.number) }

// stop ends the process as SIGTERM does.
func (p *process) stop() {
	p.cancel()
	<-p.ended
	p.worker.gang.notes.add(p.entry(exited, ""))
}

// kill ends the process as SIGKILL does: what it ran has ended, and what its goroutines still do counts for nothing.
func (p *process) kill() {
	p.worker.gang.notes.add(p.entry(exited, ""))
	p.cancel()
	<-p.ended
}
