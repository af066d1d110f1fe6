package duty

import (
	"context"
	"fmt"
	"time"
)

// A state of a job. Only an idle one surely does not run.
type state int

const (
	idle state = iota
	starting
	active
	stopping
)

// Pauses after a start or a stop that failed.
const (
	firstPause   = time.Second
	longestPause = time.Minute
)

// A job is on the list, or is not idle.
type job struct {
	name    string
	state   state
	doomed  bool // its context has ended: it must be stopped, even if it is wanted again
	resting bool // something failed, and is not tried again yet
	pause   time.Duration
	end     context.CancelFunc // of the context that Start got
	killed  context.Context    // ends when the watchdog stops it by force
	release func()             // from the watchdog
}

// release stops a job that is not wanted, or forgets it when it does not run.
func (d *duty) release(j *job) {
	switch {
	case d.wants(j.name) && !j.doomed && (d.fence.held || j.state == idle):
	case j.state == idle:
		delete(d.jobs, j.name)
	case j.state == starting:
		j.doom() // and when the start has returned, it is stopped
	case j.state == active && (!j.resting || d.leaving):
		d.stop(j)
	}
}

func (j *job) doom() {
	j.doomed = true
	j.end()
}

// clear is what nothing runs of.
func (j *job) clear() {
	j.state, j.doomed = idle, false
	j.end()
}

func (d *duty) start(j *job) {
	if j.state != idle || j.resting {
		return
	}
	ctx, end := context.WithCancel(context.Background()) // the job outlives the worker's context until it is stopped
	j.state, j.end = starting, end
	d.watch(j)
	d.Journal.Started(j.name)
	d.Log.Info("start job", "job", j.name)
	d.call(func() error {
		err := d.Jobs.Start(ctx, j.name)
		if err != nil {
			j.release()
		}
		return err
	}, func(err error) {
		if err == nil {
			j.state, j.pause = active, 0
			return
		}
		j.clear()
		d.Journal.Stopped(j.name, err)
		d.Log.Warn("job did not start", "job", j.name, "error", err)
		d.rest(j)
	})
}

// watch lets the watchdog end a job by force, without this goroutine, and no longer than until nothing of it runs any more.
func (d *duty) watch(j *job) {
	name, end := j.name, j.end
	killed, kill := context.WithCancel(context.Background())
	release := d.Watchdog.Watch(func() {
		d.Kill(name)
		kill()
		end()
	})
	j.killed, j.release = killed, func() { release(); kill() }
}

func (d *duty) stop(j *job) {
	j.state = stopping
	j.doom()
	d.Log.Info("stop job", "job", j.name)
	patience, cut := context.WithCancel(d.fence.patience)
	context.AfterFunc(j.killed, cut)
	d.call(func() error {
		defer cut()
		err := d.Jobs.Stop(patience, j.name)
		if err == nil {
			j.release()
		}
		return err
	}, func(err error) {
		switch {
		case err == nil:
			j.clear()
			j.pause = 0
			d.Journal.Stopped(j.name, nil)
		case d.leaving:
			// What cannot be stopped ends with the process, and that is next.
			j.clear()
			d.failed = append(d.failed, fmt.Errorf("stop job %q: %w", j.name, err))
		default:
			j.state = active
			d.Log.Error("job did not stop: it is tried again, and its list is not acknowledged", "job", j.name, "error", err)
			d.rest(j)
		}
	})
}

// rest leaves a job in its state for a while, longer each time.
func (d *duty) rest(j *job) {
	j.pause = min(max(2*j.pause, firstPause), longestPause)
	j.resting = true
	pause := time.NewTimer(j.pause)
	d.call(func() error {
		select {
		case <-pause.C:
		case <-d.over:
			pause.Stop()
		}
		return nil
	}, func(error) { j.resting = false })
}

// call does something elsewhere and reports its end to the goroutine that owns the state.
func (d *duty) call(what func() error, report func(error)) {
	d.calls.Go(func() {
		err := what()
		select {
		case d.reports <- func() { report(err) }:
		case <-d.over:
		}
	})
}
