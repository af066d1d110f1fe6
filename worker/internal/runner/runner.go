// Package runner keeps the running jobs in line with the worker's list.
//
// Its invariants, on which the hand-over between workers relies:
//   - Everything that runs is on one list: the jobs of a new list start when the jobs that are not on it have stopped.
//   - A list is acknowledged only when nothing runs that is not on it, and lists are applied in the order of their versions.
//   - Nothing starts while the file is older than the version in the pod's annotation.
//   - A file that cannot be read changes nothing.
//   - With a Lease, nothing runs and nothing is acknowledged without it: when it is lost, everything stops, and jobs that have not stopped
//     when others may have it end with the process. If this goroutine is stuck, a watchdog does the same.
//   - Nothing here waits for a log or a journal: neither may block.
//
// All state belongs to one goroutine; Start and Stop are called in others, which report back to it.
package runner

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

	"github.com/swarm-io/swarm-operator/internal/process/watchdog"
	"github.com/swarm-io/swarm-operator/worker/internal/filewatch"
	"github.com/swarm-io/swarm-operator/worker/internal/jobfile"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// Jobs starts and stops what the worker is for. See worker.Jobs.
type Jobs interface {
	Start(ctx context.Context, job string) error
	Stop(ctx context.Context, job string) error
}

// A Journal records what happens, on the goroutine where it happens.
type Journal interface {
	Started(job string)            // before Start is called
	Stopped(job string, err error) // after nothing of it runs any more; the error is that of a start that failed
	Acknowledged(version, config int64)
}

// A StatusReporter publishes the state of the worker.
type StatusReporter interface {
	Acknowledge(version, config int64)
	Report(problem string, jobs, running int)
}

// Config is the configuration of a runner.
type Config struct {
	Worker      string
	Jobs        Jobs
	Journal     Journal
	Status      StatusReporter
	Log         *slog.Logger
	LeaseStates <-chan lease.State // of the Lease; nil for a worker that needs none

	Watchdog *watchdog.Watchdog // its deadline is the Lease's; nil for a worker that needs none
	Kill     func(job string)   // ends a job by force, if that is possible, without blocking; may be nil
}

type runner struct {
	Config
	jobList      jobfile.JobList // the last valid one
	hasList      bool            // there was one
	acknowledged bool            // the list is
	minVersion   int64
	problems     [3]string // problems with the file, the minimum version and the Lease
	leaving      bool
	fence        fence
	stopErrors   []error // stops that failed during the shutdown
	abandoned    bool    // a job does not stop, and is not waited for

	jobs    map[string]*job
	results chan func()
	done    chan struct{}
	calls   sync.WaitGroup
}

// Run follows the snapshots of two files, the list and the minimum version, until the context ends. Then it stops everything.
func Run(ctx context.Context, config Config, files <-chan []filewatch.Snapshot) error {
	r := &runner{Config: config, jobs: map[string]*job{}, results: make(chan func()), done: make(chan struct{}),
		fence: newFence(config.LeaseStates == nil)}
	defer r.waitForCalls()
	if r.Kill == nil {
		r.Kill = func(string) {}
	}
	done := ctx.Done()
	for !r.leaving || len(r.jobs) > 0 {
		select {
		case snapshots := <-files:
			r.readList(snapshots[0])
			r.readMinVersion(snapshots[1])
		case handleResult := <-r.results:
			handleResult()
		case state := <-r.LeaseStates:
			r.fence.update(state)
			r.setProblem(2, "", r.fence.lostErr)
		case <-r.fence.forceTimer.C:
			r.fence.forceStops()
		case <-r.fence.expiryTimer.C:
			if err := r.checkStopped(); err != nil {
				return err
			}
		case <-done:
			done, files, r.leaving = nil, nil, true
		}
		r.reconcile()
	}
	return errors.Join(r.stopErrors...)
}

// readList takes over a new list, if the file holds one.
func (r *runner) readList(snapshot filewatch.Snapshot) {
	list, err := jobfile.JobList{}, snapshot.Err
	if err == nil {
		list, err = jobfile.Parse(snapshot.Content, r.Worker)
	}
	if err == nil && r.hasList && list.FileVersion < r.jobList.FileVersion {
		err = fmt.Errorf("take version %d: it is older than %d, which was read before", list.FileVersion, r.jobList.FileVersion)
	}
	if err != nil {
		r.setProblem(0, "keeping the last valid list", fmt.Errorf("read configuration: %w", err))
		return
	}
	r.setProblem(0, "", nil)
	if r.hasList && list.Equal(r.jobList) {
		return
	}
	if r.hasList && list.FileVersion == r.jobList.FileVersion {
		r.Status.Acknowledge(0, 0) // the file was edited by hand, so this version no longer identifies a list
	}
	r.jobList, r.hasList, r.acknowledged = list, true, false
	r.Log.Info("read list", "config", list.FileVersion, "version", list.ListVersion, "jobs", len(list.Jobs))
	for _, name := range list.Jobs {
		if r.jobs[name] == nil {
			r.jobs[name] = &job{name: name}
		}
	}
}

// readMinVersion never lowers the minimum version. A pod that does not mount the annotation has none.
func (r *runner) readMinVersion(snapshot filewatch.Snapshot) {
	if errors.Is(snapshot.Err, fs.ErrNotExist) {
		return
	}
	version, err := int64(0), snapshot.Err
	if err == nil {
		version, err = jobfile.ParseMinVersion(snapshot.Content)
	}
	if err != nil {
		err = fmt.Errorf("read the pod's annotation: %w", err)
	}
	r.setProblem(1, "nothing starts until it can be read", err)
	r.minVersion = max(r.minVersion, version)
}

// setProblem logs a problem when it is a new one.
func (r *runner) setProblem(index int, consequence string, err error) {
	text := ""
	if err != nil {
		text = strings.TrimSuffix(err.Error()+": "+consequence, ": ")
	}
	if text != r.problems[index] && text != "" {
		r.Log.Warn(text)
	}
	r.problems[index] = text
}

// reconcile does what can be done now: stop, acknowledge, start.
func (r *runner) reconcile() {
	names := slices.Sorted(maps.Keys(r.jobs))
	for _, name := range names {
		r.stopUnlisted(r.jobs[name])
	}
	r.acknowledge()
	for _, name := range names {
		if job := r.jobs[name]; job != nil && r.mayStart() {
			r.start(job)
		}
	}
	r.report()
}

func (r *runner) shouldRun(name string) bool { return !r.leaving && r.jobList.Contains(name) }

func (r *runner) mayStart() bool {
	return !r.leaving && r.fence.held && !r.Watchdog.Passed() && r.acknowledged && r.jobList.FileVersion >= r.minVersion && r.problems[1] == ""
}

func (r *runner) acknowledge() {
	if r.acknowledged || !r.hasList || r.leaving || !r.fence.held {
		return
	}
	for name := range r.jobs {
		if !r.shouldRun(name) {
			return
		}
	}
	r.acknowledged = true
	r.Journal.Acknowledged(r.jobList.ListVersion, r.jobList.FileVersion)
	r.Status.Acknowledge(r.jobList.ListVersion, r.jobList.FileVersion)
}

// report publishes why a worker may run no jobs.
func (r *runner) report() {
	messages := slices.DeleteFunc(slices.Clone(r.problems[:]), func(text string) bool { return text == "" })
	if r.hasList && r.jobList.FileVersion < r.minVersion {
		messages = append(messages,
			fmt.Sprintf("the file has version %d and the pod's annotation asks for %d: nothing starts until the file has caught up",
				r.jobList.FileVersion, r.minVersion))
	}
	runningCount := 0
	for _, job := range r.jobs {
		if job.state == running {
			runningCount++
		}
	}
	r.Status.Report(strings.Join(messages, "; "), len(r.jobList.Jobs), runningCount)
}
