package task

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// A journal records which agents ran what, from when to when. It reports a problem as soon as two run the same task.
type journal struct {
	world *cluster

	mu       sync.Mutex
	runs     []*stint
	sent     []*linkv1.Attempt // assignments, whether or not they arrived
	payloads []string          // of those
	acks     []ack
	cancels  []*linkv1.Cancel
	refused  []string // reasons with which agents declined
}

// A stint is one attempt on one agent.
type stint struct {
	task, uid, agent, pod string
	attempt               int32
	epoch                 int64
	start, end            time.Time
	outcome               string // "" while it runs
}

// An ack is an acknowledgement, with what was stored when it arrived.
type ack struct {
	task    string
	epoch   int64
	outcome linkv1.Outcome
	at      time.Time
	stored  int64 // epoch
	phase   string
}

func (j *journal) start(attempt *linkv1.Attempt, by *process) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	for _, other := range j.runs {
		if other.uid != attempt.GetTaskUid() {
			continue
		}
		if other.outcome == "" {
			j.world.problem("two owners: %v starts %s with epoch %x while %s (%s) runs it with epoch %x", by, attempt.GetTask(), attempt.GetEpoch(), other.agent, other.pod, other.epoch)
		}
		if other.epoch >= attempt.GetEpoch() {
			j.world.problem("%v starts %s with epoch %x after epoch %x", by, attempt.GetTask(), attempt.GetEpoch(), other.epoch)
		}
	}
	stored := j.world.store.get(named(attempt.GetTask()))
	if stored != nil && string(stored.UID) == attempt.GetTaskUid() && stored.Status.Phase.Final() {
		j.world.problem("%v starts %s with epoch %x, which is stored as %s", by, attempt.GetTask(), attempt.GetEpoch(), stored.Status.Phase)
	}
	j.runs = append(j.runs, &stint{
		task: attempt.GetTask(), uid: attempt.GetTaskUid(), agent: by.name, pod: by.podUID,
		attempt: attempt.GetAttempt(), epoch: attempt.GetEpoch(), start: now,
	})
}

func (j *journal) finish(attempt *linkv1.Attempt, outcome string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, run := range j.runs {
		if run.uid == attempt.GetTaskUid() && run.epoch == attempt.GetEpoch() && run.outcome == "" {
			run.outcome, run.end = outcome, time.Now()
		}
	}
}

func (j *journal) declined(attempt *linkv1.Attempt, reason string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.refused = append(j.refused, attempt.GetTask()+": "+reason)
}

func (j *journal) cancelled(order *linkv1.Cancel) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cancels = append(j.cancels, order)
}

func (j *journal) acknowledged(result *linkv1.Result) {
	stored := j.world.status(result.GetAttempt().GetTask())
	j.mu.Lock()
	defer j.mu.Unlock()
	j.acks = append(j.acks, ack{
		task: result.GetAttempt().GetTask(), epoch: result.GetAttempt().GetEpoch(), outcome: result.GetOutcome(),
		at: time.Now(), stored: stored.Epoch, phase: string(stored.Phase),
	})
}

// of lists the attempts at a task by start time.
func (j *journal) of(task string) []stint {
	j.mu.Lock()
	defer j.mu.Unlock()
	var list []stint
	for _, run := range j.runs {
		if run.task == task {
			list = append(list, *run)
		}
	}
	return list
}

// acknowledgements returns those of task t, the subject of most tests.
func (j *journal) acknowledgements() []ack {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(j.acks), func(one ack) bool { return one.task != "t" })
}

func (j *journal) cancelsOf(task string) []*linkv1.Cancel {
	j.mu.Lock()
	defer j.mu.Unlock()
	var list []*linkv1.Cancel
	for _, one := range j.cancels {
		if one.GetAttempt().GetTask() == task {
			list = append(list, one)
		}
	}
	return list
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var text strings.Builder
	for _, run := range j.runs {
		fmt.Fprintf(&text, "%s by %s (%s) attempt %d epoch %x: %s to %s %s\n", run.task, run.agent, run.pod, run.attempt, run.epoch,
			since(run.start), since(run.end), run.outcome)
	}
	return text.String()
}

func since(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Sub(epochOfTime).Round(time.Millisecond).String()
}
