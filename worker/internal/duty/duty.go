// Package duty keeps the running jobs equal to the worker's list.
//
// Its invariants, which the hand-over between workers rests on:
//   - Everything that runs is on one list: the jobs of a new list start when those that are not on it have stopped.
//   - A list is acknowledged when nothing runs that is not on it, never before, and lists are taken in the order of their versions.
//   - Nothing starts while the file is older than the version that the pod's annotation asks for.
//   - A file that cannot be read changes nothing.
//   - With a Lease, nothing runs and nothing is acknowledged without it: when it is lost everything stops, and what has not
//     stopped when others may have it ends with the process. A watchdog does the same should this goroutine be stuck.
//   - Nothing here waits for a log or a journal: both must not block.
//
// All state belongs to one goroutine; Start and Stop are called in others, which report back to it.
package duty

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/swarm-io/swarm-operator/internal/watchdog"
	"github.com/swarm-io/swarm-operator/worker/internal/mount"
	"github.com/swarm-io/swarm-operator/worker/internal/roster"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// Jobs starts and stops what the worker is for. See worker.Jobs.
type Jobs interface {
	Start(ctx context.Context, job string) error
	Stop(ctx context.Context, job string) error
}

// A Journal records what happens. It is called by the goroutine to which it happens.
type Journal interface {
	Started(job string)            // before Start is called
	Stopped(job string, err error) // after nothing of it runs any more; the error is that of a start that failed
	Acknowledged(version, config int64)
}

// A Board shows the outside how things are.
type Board interface {
	Acknowledge(version, config int64)
	Report(problem string, jobs, running int)
}

// Config is all that a duty needs.
type Config struct {
	Worker  string
	Jobs    Jobs
	Journal Journal
	Board   Board
	Log     *slog.Logger
	Tenures <-chan lease.Tenure // of the Lease; nil for a worker that needs none

	Watchdog *watchdog.Watchdog // its deadline is the Lease's; nil for a worker that needs none
	Kill     func(job string)   // ends a job by force, if that is possible, without blocking; may be nil
}

type duty struct {
	Config
	list         roster.Roster // the last good one
	known        bool          // there was one
	acknowledged bool          // the list is
	floor        int64
	troubles     [3]string // what is wrong with the file, with the floor, and with the Lease
	leaving      bool
	fence        fence
	failed       []error // stops that failed while leaving
	abandoned    bool    // something does not stop, and is not waited for

	jobs    map[string]*job
	reports chan func()
	over    chan struct{}
	calls   sync.WaitGroup
}

// Run follows the sights of two files, the list and the floor, until the context ends. Then it stops everything.
func Run(ctx context.Context, config Config, sights <-chan []mount.Sight) error {
	d := &duty{Config: config, jobs: map[string]*job{}, reports: make(chan func()), over: make(chan struct{}), fence: newFence(config.Tenures == nil)}
	defer d.end()
	if d.Kill == nil {
		d.Kill = func(string) {}
	}
	done := ctx.Done()
	for !d.leaving || len(d.jobs) > 0 {
		select {
		case seen := <-sights:
			d.read(seen[0])
			d.readFloor(seen[1])
		case report := <-d.reports:
			report()
		case tenure := <-d.Tenures:
			d.fence.take(tenure)
			d.trouble(2, "", d.fence.problem)
		case <-d.fence.force.C:
			d.fence.end()
		case <-d.fence.over.C:
			if err := d.outlived(); err != nil {
				return err
			}
		case <-done:
			done, sights, d.leaving = nil, nil, true
		}
		d.settle()
	}
	return errors.Join(d.failed...)
}

// read takes a new list, if it is one.
func (d *duty) read(seen mount.Sight) {
	next, err := roster.Roster{}, seen.Err
	if err == nil {
		next, err = roster.Parse(seen.Content, d.Worker)
	}
	if err == nil && d.known && next.Version < d.list.Version {
		err = fmt.Errorf("take version %d: it is older than %d, which was read before", next.Version, d.list.Version)
	}
	if err != nil {
		d.trouble(0, "the last good list stays", fmt.Errorf("read configuration: %w", err))
		return
	}
	d.trouble(0, "", nil)
	if d.known && next.Equal(d.list) {
		return
	}
	if d.known && next.Version == d.list.Version {
		d.Board.Acknowledge(0, 0) // the file was edited by hand: what this version means is not known any more
	}
	d.list, d.known, d.acknowledged = next, true, false
	d.Log.Info("read list", "config", next.Version, "version", next.Own, "jobs", len(next.Jobs))
	for _, name := range next.Jobs {
		if d.jobs[name] == nil {
			d.jobs[name] = &job{name: name}
		}
	}
}

// readFloor never lowers it. A pod that does not mount the annotation has no floor.
func (d *duty) readFloor(seen mount.Sight) {
	if errors.Is(seen.Err, fs.ErrNotExist) {
		return
	}
	floor, err := int64(0), seen.Err
	if err == nil {
		floor, err = roster.ParseFloor(seen.Content)
	}
	if err != nil {
		err = fmt.Errorf("read the pod's annotation: %w", err)
	}
	d.trouble(1, "nothing starts until it can be read", err)
	d.floor = max(d.floor, floor)
}

// trouble logs a problem when it is a new one.
func (d *duty) trouble(which int, consequence string, err error) {
	text := ""
	if err != nil {
		text = strings.TrimSuffix(err.Error()+": "+consequence, ": ")
	}
	if text != d.troubles[which] && text != "" {
		d.Log.Warn(text)
	}
	d.troubles[which] = text
}

// settle does all that can be done now: stop, acknowledge, start.
func (d *duty) settle() {
	names := slices.Sorted(maps.Keys(d.jobs))
	for _, name := range names {
		d.release(d.jobs[name])
	}
	d.acknowledge()
	for _, name := range names {
		if held := d.jobs[name]; held != nil && d.mayStart() {
			d.start(held)
		}
	}
	d.report()
}

func (d *duty) wants(name string) bool { return !d.leaving && d.list.Lists(name) }

func (d *duty) mayStart() bool {
	return !d.leaving && d.fence.held && !d.Watchdog.Passed() && d.acknowledged && d.list.Version >= d.floor && d.troubles[1] == ""
}

func (d *duty) acknowledge() {
	if d.acknowledged || !d.known || d.leaving || !d.fence.held {
		return
	}
	for name := range d.jobs {
		if !d.wants(name) {
			return
		}
	}
	d.acknowledged = true
	d.Journal.Acknowledged(d.list.Own, d.list.Version)
	d.Board.Acknowledge(d.list.Own, d.list.Version)
}

// report shows why a worker may have no jobs.
func (d *duty) report() {
	problems := slices.DeleteFunc(slices.Clone(d.troubles[:]), func(text string) bool { return text == "" })
	if d.known && d.list.Version < d.floor {
		problems = append(problems, fmt.Sprintf("the file has version %d and the pod's annotation asks for %d: nothing starts until the file has caught up", d.list.Version, d.floor))
	}
	running := 0
	for _, held := range d.jobs {
		if held.state == active {
			running++
		}
	}
	d.Board.Report(strings.Join(problems, "; "), len(d.list.Jobs), running)
}
