package fakeworkers

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

// process is one run of a worker's program. It only records which jobs it should run.
type process struct {
	worker  *Worker
	number  int64
	address string // where the SDK answers
	cancel  context.CancelFunc
	done    chan struct{}
}

// spawn starts a process with the current files.
func (w *Worker) spawn(ctx context.Context) (*process, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &process{worker: w, number: processes.Add(1), address: listener.Addr().String(), cancel: cancel, done: make(chan struct{})}
	config := worker.Config{
		Worker: w.name, PodUID: string(w.uid), Listener: listener, Log: w.set.log.With("pod", w.namespace+"/"+w.name, "process", p.number),
		File: filepath.Join(w.folder, listFile), VersionFile: filepath.Join(w.folder, versionFile),
		Lease: time.Duration(w.leaseSeconds) * time.Second, LeaseStore: p.leaseRecords(),
		Abort: func(string) {}, // other workers run in this process too
	}
	w.set.work.Go(func() {
		defer close(p.done)
		if err := worker.RunWith(ctx, config, p); err != nil && !p.isDead() {
			w.set.log.Error("worker failed", "pod", w.name, "error", err)
		}
	})
	return p, nil
}

func (p *process) entry(event, job string) Entry {
	return Entry{Event: event, Namespace: p.worker.namespace, Worker: p.worker.name, UID: string(p.worker.uid), Process: p.number, Job: job}
}

// Start is called by the SDK.
func (p *process) Start(_ context.Context, job string) error {
	p.worker.set.journal.add(p.entry(started, job))
	return nil
}

// Stop is called by the SDK. After CrashAfterNextStop the process ends before it can acknowledge.
func (p *process) Stop(_ context.Context, job string) error {
	p.worker.set.journal.add(p.entry(stopped, job))
	if p.worker.crashAfterStop.CompareAndSwap(true, false) {
		go p.worker.Restart()
		return errors.New("the process dies")
	}
	return nil
}

// leaseRecords returns the worker's Lease on the API server, which the process can use until it ends or is disconnected.
func (p *process) leaseRecords() lease.Store {
	web := *p.worker.set.httpClient
	web.Transport = cuttableTransport{p.worker.set.httpClient.Transport, func() bool { return p.worker.disconnected.Load() || p.isDead() }}
	return &lease.API{Client: &web, Server: p.worker.set.cluster.Host, Namespace: p.worker.namespace, Pod: p.worker.name,
		UID: string(p.worker.uid)}
}

// cuttableTransport is a transport to the API server that can be cut.
type cuttableTransport struct {
	http.RoundTripper
	isCut func() bool
}

func (w cuttableTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if w.isCut() {
		return nil, errors.New("the network is cut")
	}
	return w.RoundTripper.RoundTrip(request)
}

func (p *process) isDead() bool { return p.worker.set.journal.isDead(p.number) }

// terminate ends the process as SIGTERM does.
func (p *process) terminate() {
	p.cancel()
	<-p.done
	p.worker.set.journal.add(p.entry(exited, ""))
}

// kill ends the process as SIGKILL does: its jobs have ended, and what its goroutines still do is not recorded.
func (p *process) kill() {
	p.worker.set.journal.add(p.entry(exited, ""))
	p.cancel()
	<-p.done
}
