package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/swarm-io/swarm-operator/internal/watchdog"
	"github.com/swarm-io/swarm-operator/test/invariant"
)

const (
	// thawTolerance is how long code may go on in a process that was suspended past its lease: until the watchdog has looked at the clock, and
	// has ended the process because of code that does not stop.
	thawTolerance = watchdog.Tick + watchdog.DeathTimeout + 400*time.Millisecond
	// answerTolerance is by how much the journal may see what is stored later than an agent whose result was acknowledged. The operators'
	// proxies are never late. The watch may be, and it is the only witness if the API server had no time to answer.
	answerTolerance = 2 * time.Second
	// apiServerAbsence is for how long after a fault of the API server there may be no other witness.
	apiServerAbsence = 30 * time.Second

	// active is when a process that was resumed counts again.
	active = "active"
)

// taskRecord is what happened to one task so far.
type taskRecord struct {
	name     string
	history  invariant.History[int64]
	version  uint64
	stored   invariant.Stored[int64]
	final    bool
	finalAt  time.Duration
	writer   int64            // the term in which the final phase was stored; 0 if that is not known
	running  map[string]Event // by run: its start
	reported map[string]int64 // epoch by run, of successful ones
	ended    map[int64]bool   // epochs of attempts whose code has ended, however
	failures int32            // attempts that failed, or may have been stopped because they ran for too long
	attempts int
	epochs   map[int64]bool // of attempts that were started or are stored
}

// judge goes through a journal that is in the order of time.
type judge struct {
	Verdict
	tasks    map[string]*taskRecord // by UID
	requests map[string]*requests   // by the name of a task
	frozen   map[string]int         // processes that stand still, or were resumed a moment ago
	terms    map[string]int64       // by the name of an operator: the newest in which it leads
	starts   []Event                // all there are in the journal
	epochs   map[string][]int64     // by UID: of all attempts in the journal, whether they were started or only stored
	writers  map[string]string      // the process that stored a version of a Task
}

func newJudge(events []Event) *judge {
	j := &judge{
		tasks: map[string]*taskRecord{}, requests: map[string]*requests{},
		frozen: map[string]int{}, terms: map[string]int64{}, epochs: map[string][]int64{}, writers: map[string]string{},
	}
	j.Faults, j.Phases = map[string]int{}, map[string]int{}
	for _, event := range events {
		if event.Kind == started || event.Kind == stored {
			j.epochs[event.UID] = append(j.epochs[event.UID], event.Epoch)
		}
		switch {
		case event.Kind == started:
			j.starts = append(j.starts, event)
		case event.Kind == stored && strings.HasPrefix(event.Note, operatorName):
			j.writers[versionOf(event)] = event.Note
		}
	}
	return j
}

// judgeJournal checks all events. Every task that was submitted must be among them.
func judgeJournal(events []Event, submitted int) Verdict {
	j := newJudge(events)
	for _, event := range inOrder(events) {
		j.take(event)
	}
	for _, uid := range slices.Sorted(maps.Keys(j.tasks)) {
		j.conclude(j.tasks[uid])
	}
	for range submitted - len(j.tasks) {
		j.violated(Event{Task: "a task that was submitted and is not there"}, invariant.NeverFinished)
	}
	return j.Verdict
}

// inOrder adds when resumed processes count again, and defers acknowledgements by what is tolerated.
func inOrder(events []Event) []Event {
	all := slices.Clone(events)
	absent := time.Duration(-1) // until when the API server may have been away
	for n, event := range events {
		switch event.Kind {
		case resumed:
			event.Kind, event.At = active, event.At+thawTolerance
			all = append(all, event)
		case faulted:
			if strings.HasPrefix(event.Note, killAPIServer) || strings.HasPrefix(event.Note, suspendAPIServer) {
				absent = event.At + apiServerAbsence
			}
		case acknowledged:
			if event.At <= absent {
				all[n].At += answerTolerance
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return all
}

func (j *judge) violated(event Event, broken ...invariant.Invariant) {
	for _, one := range broken {
		j.Violations = append(j.Violations, Violation{one, event.Task, event})
	}
}

func (j *judge) task(event Event) *taskRecord {
	if j.tasks[event.UID] == nil {
		j.tasks[event.UID] = &taskRecord{
			name: event.Task, running: map[string]Event{}, reported: map[string]int64{}, ended: map[int64]bool{}, epochs: map[int64]bool{},
		}
	}
	return j.tasks[event.UID]
}

func (j *judge) take(event Event) {
	switch event.Kind {
	case started:
		j.start(event)
	case ended:
		j.end(event)
	case acknowledged:
		j.acknowledge(event)
	case stored:
		j.store(event)
	case exited:
		for _, task := range j.tasks {
			maps.DeleteFunc(task.running, func(_ string, run Event) bool { return run.Process == event.Process })
		}
	case requested:
		j.request(event)
	case elected:
		name, _, _ := strings.Cut(event.Process, "_")
		j.terms[name] = event.Epoch >> 32
	case suspended:
		j.frozen[event.Process]++
	case active:
		j.frozen[event.Process]--
		j.goOn(event)
	case faulted:
		j.Faults[strings.Fields(event.Note)[0]]++
	}
}

// owners counts the attempts of a task that run now.
func (j *judge) owners(task *taskRecord) (running int) {
	for _, run := range task.running {
		if j.frozen[run.Process] == 0 {
			running++
		}
	}
	return running
}

func (j *judge) start(event Event) {
	task := j.task(event)
	j.Attempts++
	if task.attempts++; task.attempts > 1 {
		j.Restarted++
	}
	task.running[event.Run] = event
	task.epochs[event.Epoch] = true
	task.history.Give(event.Epoch)
	if j.frozen[event.Process] > 0 {
		return // it was about to start before it was suspended, and does not get far
	}
	late := j.givenBefore(event.Epoch, task.finalAt) && task.isOfNextLeader(event.Epoch)
	j.violated(event, task.history.Start(event.Epoch, j.owners(task), task.final && !late)...)
}

// isOfNextLeader reports whether an attempt may have been given out by the leader after the one that stored the final phase. A former
// leader's last write may arrive after the next one has given the task out. The attempt then runs, and its result is refused.
func (t *taskRecord) isOfNextLeader(epoch int64) bool { return t.writer == 0 || epoch>>32 > t.writer }

func (j *judge) end(event Event) {
	task := j.task(event)
	began, known := task.running[event.Run]
	delete(task.running, event.Run)
	task.ended[event.Epoch] = true
	if event.Outcome == succeeded {
		task.reported[event.Run] = event.Epoch
	}
	if event.Outcome == failed || known && j.requests[event.Task].stops(event.At-began.At) {
		task.failures++
	}
}

// goOn is when a process was resumed long enough ago to have ended what it should not run.
func (j *judge) goOn(event Event) {
	for _, task := range j.tasks {
		for _, run := range task.running {
			if run.Process == event.Process && j.frozen[run.Process] == 0 {
				event.Task = task.name
				j.violated(event, invariant.Owners(j.owners(task))...)
			}
		}
	}
}

func (j *judge) acknowledge(event Event) {
	task := j.task(event)
	if !task.ended[event.Epoch] {
		return // declined: nothing is lost with it
	}
	broken := task.history.Acknowledge(event.Epoch, task.stored)
	if len(broken) > 0 && !j.superseded(event) {
		j.violated(event, broken...)
	}
}

// superseded reports whether the task was given to another agent before a result was acknowledged.
func (j *judge) superseded(event Event) bool {
	return slices.ContainsFunc(j.epochs[event.UID], func(later int64) bool {
		return later > event.Epoch && j.givenBefore(later, event.At)
	})
}

// givenBefore reports whether an assignment is known to have been given out at a time, whether or not its agent had started it. A leader
// numbers its assignments in order, so a later one that had started proves it.
func (j *judge) givenBefore(epoch int64, at time.Duration) bool {
	return slices.ContainsFunc(j.starts, func(other Event) bool {
		return other.Epoch>>32 == epoch>>32 && other.Epoch >= epoch && other.At <= at
	})
}

func (j *judge) conclude(task *taskRecord) {
	if !task.final {
		j.violated(Event{Task: task.name}, invariant.NeverFinished)
	}
}
