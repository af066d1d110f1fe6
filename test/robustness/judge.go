package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/watchdog"
	"github.com/swarm-io/swarm-operator/test/invariant"
)

const (
	// thawTolerance is how long code may go on in a process that was suspended past its lease: until the watchdog has looked at the clock, and
	// has ended the process because of code that does not stop.
	thawTolerance = watchdog.Tick + watchdog.DeathTimeout + 400*time.Millisecond
	// answerTolerance is by how much the journal may hear later of what is stored than an agent whose result was acknowledged. The operators'
	// proxies are never late; the watch may be, which only counts when the API server had no time to answer.
	answerTolerance = 2 * time.Second

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
	running  map[string]string // process by run
	reported map[string]int64  // epoch by run, of those that succeeded
	failures int32
	attempts int
	epochs   map[int64]bool // of attempts that were started or are stored
}

// judge goes through a journal that is in the order of time.
type judge struct {
	Verdict
	tasks  map[string]*taskRecord // by UID
	frozen map[string]int         // processes that stand still, or were resumed a moment ago
	starts []Event                // all there are in the journal
}

// judgeJournal checks all events. Every task that was submitted must be among them.
func judgeJournal(events []Event, submitted int) Verdict {
	j := &judge{tasks: map[string]*taskRecord{}, frozen: map[string]int{}}
	j.Faults, j.Phases = map[string]int{}, map[string]int{}
	j.starts = slices.DeleteFunc(slices.Clone(events), func(event Event) bool { return event.Kind != started })
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
	for n, event := range events {
		switch event.Kind {
		case resumed:
			event.Kind, event.At = active, event.At+thawTolerance
			all = append(all, event)
		case acknowledged:
			all[n].At += answerTolerance
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
		j.tasks[event.UID] = &taskRecord{name: event.Task, running: map[string]string{}, reported: map[string]int64{}, epochs: map[int64]bool{}}
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
			maps.DeleteFunc(task.running, func(_, process string) bool { return process == event.Process })
		}
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
	for _, process := range task.running {
		if j.frozen[process] == 0 {
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
	task.running[event.Run] = event.Process
	task.epochs[event.Epoch] = true
	task.history.Give(event.Epoch)
	if j.frozen[event.Process] > 0 {
		return // it was about to start before it was suspended, and does not get far
	}
	// A former leader's last write may be stored after the next one has given the task out. The attempt then runs, and its result is refused.
	final := task.final && !j.givenBefore(event.Epoch, task.finalAt)
	j.violated(event, task.history.Start(event.Epoch, j.owners(task), final)...)
}

func (j *judge) end(event Event) {
	task := j.task(event)
	delete(task.running, event.Run)
	switch event.Outcome {
	case succeeded:
		task.reported[event.Run] = event.Epoch
	case failed:
		task.failures++
	}
}

// goOn is when a process was resumed long enough ago to have ended what it should not run.
func (j *judge) goOn(event Event) {
	for _, task := range j.tasks {
		for _, process := range task.running {
			if process == event.Process && j.frozen[process] == 0 {
				event.Task = task.name
				j.violated(event, invariant.Owners(j.owners(task))...)
			}
		}
	}
}

func (j *judge) acknowledge(event Event) {
	task := j.task(event)
	if !slices.Contains(slices.Collect(maps.Values(task.reported)), event.Epoch) {
		return // declined or handed back: nothing is lost with it
	}
	broken := task.history.Acknowledge(event.Epoch, task.stored)
	if len(broken) > 0 && !j.superseded(event) {
		j.violated(event, broken...)
	}
}

// superseded reports whether the task was given to another agent before a result was acknowledged.
func (j *judge) superseded(event Event) bool {
	return slices.ContainsFunc(j.starts, func(later Event) bool {
		return later.UID == event.UID && later.Epoch > event.Epoch && j.givenBefore(later.Epoch, event.At-answerTolerance)
	})
}

// givenBefore reports whether an assignment is known to have been given out at a time, whether or not its agent had started it. A leader numbers
// its assignments in order, so a later one that had started tells.
func (j *judge) givenBefore(epoch int64, at time.Duration) bool {
	return slices.ContainsFunc(j.starts, func(other Event) bool {
		return other.Epoch>>32 == epoch>>32 && other.Epoch >= epoch && other.At <= at
	})
}

func (j *judge) store(event Event) {
	task := j.task(event)
	if event.Epoch > 0 {
		task.epochs[event.Epoch] = true
	}
	if event.Stored.Version <= task.version {
		return // a second witness
	}
	after := invariant.Stored[int64]{Epoch: event.Epoch, Phase: event.Stored.Phase, Assigned: event.Stored.Assigned}
	j.violated(event, invariant.Change(task.stored, after)...)
	if after.Final() && !task.final && !task.counted(event) {
		j.violated(event, invariant.CounterWrong)
	}
	task.version, task.stored = event.Stored.Version, after
	if after.Assigned {
		task.history.Give(after.Epoch)
	}
	if after.Final() && !task.final {
		task.final, task.finalAt = true, event.At
		j.finish(task, event)
	}
}

// finish compares the end of a task with what its attempts reported.
func (j *judge) finish(task *taskRecord, event Event) {
	epoch, known := task.reported[event.Stored.Result]
	if event.Stored.Phase == "Completed" && (!known || epoch != event.Epoch) {
		j.violated(event, invariant.ResultUnknown)
	}
	phase := event.Stored.Phase
	if event.Stored.Reason != "" {
		phase += ":" + event.Stored.Reason
	}
	j.Phases[phase]++
}

// countedReasons are why a task fails although its last attempt is counted.
var countedReasons = []v1alpha1.Reason{v1alpha1.ReasonTooManyReassignments, v1alpha1.ReasonTooManyHandBacks}

// counted reports whether the counters of a task that is final now agree with its attempts. Each attempt is counted once: as a retry, a
// reassignment or a hand-back, unless it decided the task. Nothing may be counted that did not happen. Nothing may be missing either if one
// leader gave out all attempts; the next one does not know of an attempt that was not stored and whose process has ended.
func (t *taskRecord) counted(final Event) bool {
	held := final.Stored
	ends := int(held.Retries + held.Reassignments + held.HandBacks)
	if !slices.Contains(countedReasons, v1alpha1.Reason(held.Reason)) && !t.stored.Records(final.Epoch) {
		ends++ // the attempt that decided it; one that had been counted as lost does not count again
	}
	complete := ends >= t.attempts || !t.oneLeader()
	return held.Retries <= t.failures && ends <= len(t.epochs) && complete
}

// oneLeader reports whether all attempts were given out in one term.
func (t *taskRecord) oneLeader() bool {
	terms := map[int64]bool{}
	for epoch := range t.epochs {
		terms[epoch>>32] = true
	}
	return len(terms) == 1
}

func (j *judge) conclude(task *taskRecord) {
	if !task.final {
		j.violated(Event{Task: task.name}, invariant.NeverFinished)
	}
}
