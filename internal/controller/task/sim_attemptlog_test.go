package task

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// An attemptLog records which agents ran what, from when to when. It reports a problem as soon as two run the same task.
type attemptLog struct {
	sim *simulation

	mu             sync.Mutex
	runs           []*attemptRecord
	sentAttempts   []*linkv1.Attempt // assignments, whether or not they arrived
	payloads       []string          // of those
	acks           []ackRecord
	cancels        []*linkv1.Cancel
	declineReasons []string // reasons with which agents declined
}

// An attemptRecord is one attempt on one agent.
type attemptRecord struct {
	task, uid, agent, pod string
	attempt               int32
	epoch                 int64
	start, end            time.Time
	outcome               string // "" while it runs
}

// An ackRecord is an acknowledgement, with what was stored when it arrived.
type ackRecord struct {
	task    string
	epoch   int64
	outcome linkv1.Outcome
	at      time.Time
	stored  int64 // epoch
	phase   string
}

func (l *attemptLog) recordStart(attempt *linkv1.Attempt, process *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, other := range l.runs {
		if other.uid != attempt.GetTaskUid() {
			continue
		}
		if other.outcome == "" {
			l.sim.problem("two owners: %v starts %s with epoch %x while %s (%s) runs it with epoch %x", process, attempt.GetTask(),
				attempt.GetEpoch(), other.agent, other.pod, other.epoch)
		}
		if other.epoch >= attempt.GetEpoch() {
			l.sim.problem("%v starts %s with epoch %x after epoch %x", process, attempt.GetTask(), attempt.GetEpoch(), other.epoch)
		}
	}
	stored := l.sim.store.get(namespacedName(attempt.GetTask()))
	if stored != nil && string(stored.UID) == attempt.GetTaskUid() && stored.Status.Phase.Final() {
		l.sim.problem("%v starts %s with epoch %x, which is stored as %s", process, attempt.GetTask(), attempt.GetEpoch(), stored.Status.Phase)
	}
	l.runs = append(l.runs, &attemptRecord{
		task: attempt.GetTask(), uid: attempt.GetTaskUid(), agent: process.name, pod: process.podUID,
		attempt: attempt.GetAttempt(), epoch: attempt.GetEpoch(), start: now,
	})
}

func (l *attemptLog) recordEnd(attempt *linkv1.Attempt, outcome string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, run := range l.runs {
		if run.uid == attempt.GetTaskUid() && run.epoch == attempt.GetEpoch() && run.outcome == "" {
			run.outcome, run.end = outcome, time.Now()
		}
	}
}

func (l *attemptLog) recordDecline(attempt *linkv1.Attempt, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.declineReasons = append(l.declineReasons, attempt.GetTask()+": "+reason)
}

func (l *attemptLog) recordCancel(order *linkv1.Cancel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancels = append(l.cancels, order)
}

func (l *attemptLog) recordAck(result *linkv1.Result) {
	stored := l.sim.status(result.GetAttempt().GetTask())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks = append(l.acks, ackRecord{
		task: result.GetAttempt().GetTask(), epoch: result.GetAttempt().GetEpoch(), outcome: result.GetOutcome(),
		at: time.Now(), stored: stored.Epoch, phase: string(stored.Phase),
	})
}

// runsOf lists the attempts at a task by start time.
func (l *attemptLog) runsOf(task string) []attemptRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []attemptRecord
	for _, run := range l.runs {
		if run.task == task {
			list = append(list, *run)
		}
	}
	return list
}

// acksOfTaskT returns those of task t, the subject of most tests.
func (l *attemptLog) acksOfTaskT() []ackRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.acks), func(ack ackRecord) bool { return ack.task != "t" })
}

func (l *attemptLog) cancelsOf(task string) []*linkv1.Cancel {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []*linkv1.Cancel
	for _, cancel := range l.cancels {
		if cancel.GetAttempt().GetTask() == task {
			list = append(list, cancel)
		}
	}
	return list
}

func (l *attemptLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var text strings.Builder
	for _, run := range l.runs {
		fmt.Fprintf(&text, "%s by %s (%s) attempt %d epoch %x: %s to %s %s\n", run.task, run.agent, run.pod, run.attempt, run.epoch,
			since(run.start), since(run.end), run.outcome)
	}
	return text.String()
}

func since(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Sub(startTime).Round(time.Millisecond).String()
}
