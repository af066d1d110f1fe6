package dispatch

import (
	"errors"
	"maps"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/schedule"
)

const (
	// writtenAfter is how long the write of a first assignment may wait: a task that ends sooner costs one write, not two.
	writtenAfter = time.Second
	// A wait is reported to users once it lasts: soon when they have to act, later when it only takes time.
	toldSoon, toldLate = time.Second, 10 * time.Second
)

// pass assigns what can be assigned in a swarm, and returns when to look again.
func (b *Board) pass(of *swarm, now time.Time) time.Time {
	until := b.heldBack(of, now)
	if until.IsZero() {
		b.openGate(of)
	}
	if !until.IsZero() || !of.ruled {
		return until
	}
	clear(of.awaited)
	if !of.stirred && (of.due.IsZero() || now.Before(of.due)) {
		return of.due
	}
	of.stirred = false
	next, ready := of.ready(now)
	of.due = next
	if halt := of.rules.Halt; halt != nil {
		for _, task := range ready {
			b.park(task, *halt)
		}
		return next
	}
	b.bind(of, ready, now)
	if len(of.queue) > 0 {
		of.due = earliest(next, b.atRest(of, now))
	}
	return of.due
}

// openGate reconciles everything that had to wait until the agents of a swarm have reported what they run: ends of attempts
// and tasks, and the swarm itself.
func (b *Board) openGate(of *swarm) {
	for name := range of.ends {
		b.config.Tasks.After(name, 0)
	}
	clear(of.ends)
	if of.unheard {
		of.unheard = false
		b.config.Swarms.After(of.name, 0)
	}
}

// ready returns the tasks that may start, and when there will be more.
func (s *swarm) ready(now time.Time) (next time.Time, tasks map[string]*entry) {
	tasks = make(map[string]*entry, len(s.queue))
	for _, task := range s.queue {
		if now.Before(task.notBefore) {
			next = earliest(next, task.notBefore)
			continue
		}
		tasks[string(task.uid)] = task
	}
	return next, tasks
}

// bind lets the engine decide and carries out its decision.
func (b *Board) bind(of *swarm, ready map[string]*entry, now time.Time) {
	demands := make([]schedule.Task, 0, len(ready))
	for _, task := range ready {
		demands = append(demands, task.demand())
	}
	members, offers := b.members(of.name, now)
	decision := schedule.Plan(demands, offers, of.rules.Strategy)
	for _, bound := range decision.Bound {
		b.assign(ready[bound.Task], members[bound.Agent], now)
	}
	for _, waiting := range decision.Waiting {
		b.park(ready[waiting.Task], Wait{Reason: v1alpha1.Reason(waiting.Reason), Message: waiting.Message})
	}
}

// members returns the agents of a swarm, for us and for the engine.
func (b *Board) members(of types.NamespacedName, now time.Time) (map[string]*agent, []schedule.Agent) {
	members, offers := map[string]*agent{}, []schedule.Agent{}
	for member := range maps.Values(b.agents) {
		if member.swarm != of || !member.enrolled {
			continue
		}
		members[member.name.Name] = member
		offers = append(offers, schedule.Agent{
			Name: member.name.Name, Type: member.kind, Offers: member.offers, Slots: member.slots(), Running: member.slots() - member.room(now), Given: member.given,
			Draining: member.draining || !member.leaving.IsZero(), Away: !member.linked,
		})
	}
	return members, offers
}

// park records why a task waits, and requests a report if the reason is new.
func (b *Board) park(task *entry, why Wait) {
	if task.wait == why {
		return
	}
	news := task.wait.Reason != why.Reason
	task.wait = why
	if news {
		b.config.Tasks.After(task.name, ToldAfter(why.Reason))
	}
}

// ToldAfter is how long a wait lasts before it is written.
func ToldAfter(reason v1alpha1.Reason) time.Duration {
	switch reason {
	case v1alpha1.ReasonNoFreeSlot, v1alpha1.ReasonNoAgentReady, v1alpha1.ReasonNamespaceLimitReached:
		return toldLate
	}
	return toldSoon
}

// assign gives a task to an agent: at once if it is the task's first attempt, the agent may have what is not stored and the
// payload is here; otherwise once it is written.
func (b *Board) assign(task *entry, member *agent, now time.Time) {
	fresh := task.fresh()
	first := fresh && b.mayRunUnstored(member) && !task.brief.Referred
	b.take(task, &hold{
		agent: member, process: member.process, attempt: task.attempt + 1, epoch: b.nextEpoch(), since: now, first: first,
	})
	if fresh {
		b.metrics.waited.Observe(now.Sub(task.waiting).Seconds())
	}
	if first {
		b.deliver(task, task.brief.Payload)
		b.config.Tasks.After(task.name, writtenAfter)
		return
	}
	b.config.Tasks.After(task.name, 0)
}

// deliver sends an assignment. One that cannot be sent counts as never made.
func (b *Board) deliver(task *entry, payload []byte) {
	held := task.held
	member := held.agent
	err := errNotAsAssigned
	if held.process == member.process && member.linked && member.isHeardOut() && task.brief.Blocked == nil {
		err = b.link.Send(member.name, &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Assign{Assign: task.order(held, payload)}})
	}
	if err == nil {
		held.sent, held.expires = true, time.Time{} // whatever the agent did while it was written
		member.given++
		member.sent++
		b.config.Agents.After(member.object(), shownEvery)
		return
	}
	b.metrics.undelivered.Inc()
	b.release(task)
	if held.first {
		task.epoch, task.attempt = 0, 0 // no agent has seen it: the next attempt is the first
	}
	task.notBefore = time.Now().Add(declinedPause)
	b.queue(task)
}

// errNotAsAssigned keeps an assignment that was written for one process from its successor, and one whose payload is gone from every agent.
var errNotAsAssigned = errors.New("the agent or the task is not as it was when it was assigned")

func (e *entry) order(held *hold, payload []byte) *linkv1.Assign {
	return &linkv1.Assign{
		Attempt: e.attemptOf(held), Payload: payload, RunTimeout: duration(e.wants.runSeconds), ProgressTimeout: duration(e.wants.heartbeat),
	}
}

func duration(seconds int32) *durationpb.Duration {
	if seconds <= 0 {
		return nil
	}
	return durationpb.New(time.Duration(seconds) * time.Second)
}

// order asks an agent to stop an attempt, and reports whether that could be sent. An agent that does not know how to hand an
// attempt back is asked to cancel it: the result is lost, but the slot does not stay blocked. The task goes to another agent
// either way, which counts as a hand-back.
func (b *Board) order(member *agent, attempt *linkv1.Attempt, how Stop) bool {
	if how == HandBack {
		err := b.sendCancel(member, &linkv1.Cancel{Attempt: attempt, Reason: "HandBack", HandBack: true})
		if !errors.Is(err, link.ErrUnsupported) {
			return err == nil
		}
	}
	return b.sendCancel(member, &linkv1.Cancel{Attempt: attempt, Reason: "Cancelled"}) == nil
}

func (b *Board) sendCancel(member *agent, cancel *linkv1.Cancel) error {
	return b.link.Send(member.name, &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Cancel{Cancel: cancel}})
}

func (b *Board) acknowledge(to link.Agent, attempt *linkv1.Attempt) {
	_ = b.link.Send(to, &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Acknowledge{Acknowledge: &linkv1.Acknowledge{Attempt: attempt}}})
}
