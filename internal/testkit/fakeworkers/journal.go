package fakeworkers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// The events of a worker.
const (
	started = "start"
	stopped = "stop"
	exited  = "exit" // of a process: nothing of it runs any more
)

// An Entry is one event of a worker.
type Entry struct {
	Time      time.Time
	Event     string
	Namespace string
	Worker    string
	UID       string // of its pod
	Process   int64
	Job       string
}

func (e Entry) String() string {
	return fmt.Sprintf("%s %s of %s by process %d of %s (%s)", e.Time.Format("15:04:05.000"), e.Event, e.Job, e.Process, e.Worker, e.UID)
}

// entryLog holds the events of all workers in order.
type entryLog struct {
	mu            sync.Mutex
	entries       []Entry
	deadProcesses map[int64]bool // processes that have exited
}

// add records an entry of a process, unless the process has exited.
func (l *entryLog) add(entry Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deadProcesses[entry.Process] {
		return
	}
	if entry.Event == exited {
		if l.deadProcesses == nil {
			l.deadProcesses = map[int64]bool{}
		}
		l.deadProcesses[entry.Process] = true
	}
	entry.Time = time.Now()
	l.entries = append(l.entries, entry)
}

func (l *entryLog) isDead(process int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadProcesses[process]
}

func (l *entryLog) inNamespace(namespace string) Journal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.entries), func(e Entry) bool { return e.Namespace != namespace })
}

// A Journal holds the events of the workers of a namespace in order.
type Journal []Entry

// String returns one line per entry.
func (j Journal) String() string {
	lines := make([]string, len(j))
	for i, entry := range j {
		lines[i] = entry.String()
	}
	return strings.Join(lines, "\n")
}

// Verify returns an error for each job that was started while another worker had it.
func (j Journal) Verify() error {
	var problems []error
	owners := map[string]Entry{}
	for _, entry := range j {
		owner, owned := owners[entry.Job]
		switch {
		case entry.Event == exited:
			for job, owner := range owners {
				if owner.Process == entry.Process {
					delete(owners, job)
				}
			}
		case entry.Event == started && owned:
			problems = append(problems, fmt.Errorf("two owners: %s, while this had not ended: %s", entry, owner))
		case entry.Event == started:
			owners[entry.Job] = entry
		case owner.Process == entry.Process:
			delete(owners, entry.Job)
		}
	}
	return errors.Join(problems...)
}

// Running returns the jobs that run at the end of the journal, by worker, sorted by name. It omits workers that run nothing.
func (j Journal) Running() map[string][]string {
	type run struct {
		process int64
		job     string
	}
	running := map[run]string{}
	for _, entry := range j {
		switch this := (run{entry.Process, entry.Job}); entry.Event {
		case started:
			running[this] = entry.Worker
		case stopped:
			delete(running, this)
		case exited:
			for active := range running {
				if active.process == entry.Process {
					delete(running, active)
				}
			}
		}
	}
	workers := map[string][]string{}
	for active, worker := range running {
		workers[worker] = append(workers[worker], active.job)
	}
	for _, jobs := range workers {
		slices.Sort(jobs)
	}
	return workers
}

// Starts counts how often jobs were started, by name.
func (j Journal) Starts() map[string]int {
	counts := map[string]int{}
	for _, entry := range j {
		if entry.Event == started {
			counts[entry.Job]++
		}
	}
	return counts
}
