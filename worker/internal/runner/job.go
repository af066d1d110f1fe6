package runner

import (
	"context"
	"fmt"
	"time"
)

// The states of a job. Only an idle job certainly does not run.
type state int

const (
	idle state = iota
	starting
	running
	stopping
)

// Pauses after a start or a stop that failed.
const (
	initialBackoff = time.Second
	maxBackoff     = time.Minute
)

// A job is on the list, or not idle.
type job struct {
	name         string
	state        state
	cancelled    bool // its context has ended: it must be stopped, even if it is wanted again
	backingOff   bool // something failed, and is not retried yet
	backoff      time.Duration
	cancel       context.CancelFunc // of the context that Start got
	killCtx      context.Context    // ends when the watchdog stops it by force
	stopWatching func()             // from the watchdog
}

// stopUnlisted stops a job that is not on the list, or removes it if it does not run.
func (r *runner) stopUnlisted(j *job) {
	switch {
	case r.shouldRun(j.name) && !j.cancelled && (r.fence.held || j.state == idle):
	case j.state == idle:
		delete(r.jobs, j.name)
	case j.state == starting:
		j.cancelContext() // it is stopped once the start has returned
	case j.state == running && (!j.backingOff || r.leaving):
		r.stop(j)
	}
}

func (j *job) cancelContext() {
	j.cancelled = true
	j.cancel()
}

// markIdle records that nothing of the job runs.
func (j *job) markIdle() {
	j.state, j.cancelled = idle, false
	j.cancel()
}

func (r *runner) start(j *job) {
	if j.state != idle || j.backingOff {
		return
	}
	ctx, end := context.WithCancel(context.Background()) // the job outlives the worker's context until it is stopped
	j.state, j.cancel = starting, end
	r.watchJob(j)
	r.Journal.Started(j.name)
	r.Log.Info("starting job", "job", j.name)
	r.runAsync(func() error {
		err := r.Jobs.Start(ctx, j.name)
		if err != nil {
			j.stopWatching()
		}
		return err
	}, func(err error) {
		if err == nil {
			j.state, j.backoff = running, 0
			return
		}
		j.markIdle()
		r.Journal.Stopped(j.name, err)
		r.Log.Warn("job did not start", "job", j.name, "error", err)
		r.backOff(j)
	})
}

// watchJob lets the watchdog end a job by force, without this goroutine, until nothing of the job runs.
func (r *runner) watchJob(j *job) {
	name, end := j.name, j.cancel
	killCtx, kill := context.WithCancel(context.Background())
	release := r.Watchdog.Watch(func() {
		r.Kill(name)
		kill()
		end()
	})
	j.killCtx, j.stopWatching = killCtx, func() { release(); kill() }
}

func (r *runner) stop(j *job) {
	j.state = stopping
	j.cancelContext()
	r.Log.Info("stopping job", "job", j.name)
	stopCtx, cancelStop := context.WithCancel(r.fence.stopCtx)
	context.AfterFunc(j.killCtx, cancelStop)
	r.runAsync(func() error {
		defer cancelStop()
		err := r.Jobs.Stop(stopCtx, j.name)
		if err == nil {
			j.stopWatching()
		}
		return err
	}, func(err error) {
		switch {
		case err == nil:
			j.markIdle()
			j.backoff = 0
			r.Journal.Stopped(j.name, nil)
		case r.leaving:
			// A job that cannot be stopped ends with the process, which ends next.
			j.markIdle()
			r.stopErrors = append(r.stopErrors, fmt.Errorf("stop job %q: %w", j.name, err))
		default:
			j.state = running
			r.Log.Error("job did not stop: retrying, and not acknowledging the list", "job", j.name, "error", err)
			r.backOff(j)
		}
	})
}

// backOff leaves a job in its state for a time that grows with each call.
func (r *runner) backOff(j *job) {
	j.backoff = min(max(2*j.backoff, initialBackoff), maxBackoff)
	j.backingOff = true
	timer := time.NewTimer(j.backoff)
	r.runAsync(func() error {
		select {
		case <-timer.C:
		case <-r.done:
			timer.Stop()
		}
		return nil
	}, func(error) { j.backingOff = false })
}

// runAsync runs a call on another goroutine, and reports its end to the goroutine that owns the state.
func (r *runner) runAsync(call func() error, onDone func(error)) {
	r.calls.Go(func() {
		err := call()
		select {
		case r.results <- func() { onDone(err) }:
		case <-r.done:
		}
	})
}
