package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/swarm-io/swarm-operator/internal/process/watchdog"
	"github.com/swarm-io/swarm-operator/test/invariant"
)

const (
	// resumeTolerance is how long code may continue in a process that was suspended past its lease: until the watchdog has read the clock,
	// and has ended the process because of code that does not stop.
	resumeTolerance = watchdog.Tick + watchdog.DeathTimeout + 400*time.Millisecond
	// acknowledgeTolerance is by how much the journal may record a stored result later than its agent records the acknowledgement. The
	// operators' proxies are never late. The watch may be, and it is the only evidence if the API server could not respond.
	acknowledgeTolerance = 2 * time.Second
	// apiServerRecoveryTime is for how long after a fault of the API server there may be no other evidence.
	apiServerRecoveryTime = 30 * time.Second

	// eventActive is when a process that was resumed counts again.
	eventActive = "active"
)

// taskHistory is what happened to one task so far.
type taskHistory struct {
	name          string
	history       invariant.History[int64]
	version       uint64
	stored        invariant.StoredTask[int64]
	final         bool
	finalAt       time.Duration
	writer        int64            // the term in which the final phase was stored; 0 if that is not known
	running       map[string]Event // by run: its start
	succeededRuns map[string]int64 // epoch by run, of successful ones
	endedEpochs   map[int64]bool   // epochs of attempts whose code has ended, however
	failures      int32            // attempts that failed, or may have been stopped because they ran for too long
	attempts      int
	epochs        map[int64]bool // of attempts that were started or are stored
}

// checker checks a journal in the order of time.
type checker struct {
	Verdict
	tasks       map[string]*taskHistory // by UID
	requests    map[string]*requests    // by the name of a task
	suspended   map[string]int          // processes that are suspended, or were just resumed
	terms       map[string]int64        // by the name of an operator: the newest in which it leads
	startEvents []Event                 // all there are in the journal
	epochs      map[string][]int64      // by UID: of all attempts in the journal, whether they were started or only stored
	storedBy    map[string]string       // the process that stored a version of a Task
}

func newChecker(events []Event) *checker {
	j := &checker{
		tasks: map[string]*taskHistory{}, requests: map[string]*requests{},
		suspended: map[string]int{}, terms: map[string]int64{}, epochs: map[string][]int64{}, storedBy: map[string]string{},
	}
	j.Faults, j.Phases = map[string]int{}, map[string]int{}
	for _, event := range events {
		if event.Kind == eventStarted || event.Kind == eventStored {
			j.epochs[event.UID] = append(j.epochs[event.UID], event.Epoch)
		}
		switch {
		case event.Kind == eventStarted:
			j.startEvents = append(j.startEvents, event)
		case event.Kind == eventStored && strings.HasPrefix(event.Note, operatorName):
			j.storedBy[versionOf(event)] = event.Note
		}
	}
	return j
}

// checkJournal checks all events. Every task that was submitted must be among them.
func checkJournal(events []Event, submitted int) Verdict {
	j := newChecker(events)
	for _, event := range sortEvents(events) {
		j.checkEvent(event)
	}
	for _, uid := range slices.Sorted(maps.Keys(j.tasks)) {
		j.checkTaskAtEnd(j.tasks[uid])
	}
	for range submitted - len(j.tasks) {
		j.addViolations(Event{Task: "a task that was submitted and is not there"}, invariant.NeverFinished)
	}
	return j.Verdict
}

// sortEvents adds the times at which resumed processes count again, and delays acknowledgements by the tolerance.
func sortEvents(events []Event) []Event {
	sorted := slices.Clone(events)
	recoversAt := time.Duration(-1) // until when the API server may have been unavailable
	for n, event := range events {
		switch event.Kind {
		case eventResumed:
			event.Kind, event.At = eventActive, event.At+resumeTolerance
			sorted = append(sorted, event)
		case eventFault:
			if strings.HasPrefix(event.Note, killAPIServer) || strings.HasPrefix(event.Note, suspendAPIServer) {
				recoversAt = event.At + apiServerRecoveryTime
			}
		case eventAcknowledged:
			if event.At <= recoversAt {
				sorted[n].At += acknowledgeTolerance
			}
		}
	}
	slices.SortStableFunc(sorted, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return sorted
}

func (j *checker) addViolations(event Event, broken ...invariant.Invariant) {
	for _, one := range broken {
		j.Violations = append(j.Violations, Violation{one, event.Task, event})
	}
}

func (j *checker) task(event Event) *taskHistory {
	if j.tasks[event.UID] == nil {
		j.tasks[event.UID] = &taskHistory{
			name: event.Task, running: map[string]Event{}, succeededRuns: map[string]int64{}, endedEpochs: map[int64]bool{},
			epochs: map[int64]bool{},
		}
	}
	return j.tasks[event.UID]
}

func (j *checker) checkEvent(event Event) {
	switch event.Kind {
	case eventStarted:
		j.start(event)
	case eventEnded:
		j.checkEnd(event)
	case eventAcknowledged:
		j.checkAcknowledged(event)
	case eventStored:
		j.store(event)
	case eventExited:
		for _, task := range j.tasks {
			maps.DeleteFunc(task.running, func(_ string, run Event) bool { return run.Process == event.Process })
		}
	case eventRequested:
		j.request(event)
	case eventElected:
		name, _, _ := strings.Cut(event.Process, "_")
		j.terms[name] = event.Epoch >> 32
	case eventSuspended:
		j.suspended[event.Process]++
	case eventActive:
		j.suspended[event.Process]--
		j.checkResumed(event)
	case eventFault:
		j.Faults[strings.Fields(event.Note)[0]]++
	}
}

// owners counts the attempts of a task that run now.
func (j *checker) owners(task *taskHistory) (running int) {
	for _, run := range task.running {
		if j.suspended[run.Process] == 0 {
			running++
		}
	}
	return running
}

func (j *checker) start(event Event) {
	task := j.task(event)
	j.Attempts++
	if task.attempts++; task.attempts > 1 {
		j.Restarted++
	}
	task.running[event.Run] = event
	task.epochs[event.Epoch] = true
	task.history.RecordAssignment(event.Epoch)
	if j.suspended[event.Process] > 0 {
		return // it was about to start before it was suspended, and is ended soon
	}
	late := j.wasAssignedBefore(event.Epoch, task.finalAt) && task.isFromNextLeader(event.Epoch)
	j.addViolations(event, task.history.RecordStart(event.Epoch, j.owners(task), task.final && !late)...)
}

// isFromNextLeader reports whether an attempt may have been assigned by the leader after the one that stored the final phase. A former
// leader's last write may arrive after the next leader has assigned the task. The attempt then runs, and its result is refused.
func (t *taskHistory) isFromNextLeader(epoch int64) bool {
	return t.writer == 0 || epoch>>32 > t.writer
}

func (j *checker) checkEnd(event Event) {
	task := j.task(event)
	began, isRunning := task.running[event.Run]
	delete(task.running, event.Run)
	task.endedEpochs[event.Epoch] = true
	if event.Outcome == outcomeSucceeded {
		task.succeededRuns[event.Run] = event.Epoch
	}
	if event.Outcome == outcomeFailed || isRunning && j.requests[event.Task].stops(event.At-began.At) {
		task.failures++
	}
}

// checkResumed is when a process was resumed long enough ago to have ended what it should not run.
func (j *checker) checkResumed(event Event) {
	for _, task := range j.tasks {
		for _, run := range task.running {
			if run.Process == event.Process && j.suspended[run.Process] == 0 {
				event.Task = task.name
				j.addViolations(event, invariant.CheckOwners(j.owners(task))...)
			}
		}
	}
}

func (j *checker) checkAcknowledged(event Event) {
	task := j.task(event)
	if !task.endedEpochs[event.Epoch] {
		return // declined: nothing is lost with it
	}
	broken := task.history.CheckAcknowledged(event.Epoch, task.stored)
	if len(broken) > 0 && !j.isSuperseded(event) {
		j.addViolations(event, broken...)
	}
}

// isSuperseded reports whether the task was given to another agent before a result was acknowledged.
func (j *checker) isSuperseded(event Event) bool {
	return slices.ContainsFunc(j.epochs[event.UID], func(later int64) bool {
		return later > event.Epoch && j.wasAssignedBefore(later, event.At)
	})
}

// wasAssignedBefore reports whether an assignment is known to have been issued by a time, whether or not its agent had started it. A leader
// numbers its assignments in order, so a later one that had started proves it.
func (j *checker) wasAssignedBefore(epoch int64, at time.Duration) bool {
	return slices.ContainsFunc(j.startEvents, func(other Event) bool {
		return other.Epoch>>32 == epoch>>32 && other.Epoch >= epoch && other.At <= at
	})
}

func (j *checker) checkTaskAtEnd(task *taskHistory) {
	if !task.final {
		j.addViolations(Event{Task: task.name}, invariant.NeverFinished)
	}
}
