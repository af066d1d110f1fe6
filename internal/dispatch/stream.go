package dispatch

import (
	"errors"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// shownEvery is how often, at most, the load of an agent is written.
const shownEvery = 10 * time.Second

// Joined implements link.Events: an agent reports what it runs and which results were never acknowledged.
func (b *Board) Joined(name link.Agent, podUID string, hello *linkv1.Hello) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if proven := hello.GetTerm(); proven > b.config.Leadership.Term() {
		b.config.Leadership.RaiseTerm(proven)
		return errLaterTerm
	}
	b.passOver(hello)
	member := b.agentOf(name)
	by := Process{podUID, hello.GetProcess()}
	if b.writeHoldsOfOthers(member, by) {
		return errUnwritten
	}
	if !member.enrolled {
		member.swarm = types.NamespacedName{Namespace: name.Namespace, Name: hello.GetSwarm()}
	}
	member.linked, member.process, member.granted, member.sent = true, by, 0, 0
	member.offered, member.draining = int(hello.GetSlots()), hello.GetDraining()
	member.named, member.partial = named(hello), hello.GetPartial()
	for _, attempt := range hello.GetRunning() {
		b.resume(member, member.process, attempt)
	}
	for _, result := range hello.GetUnacknowledged() {
		b.conclude(member, result)
	}
	b.stir(b.swarmOf(member.swarm))
	b.config.Agents.After(member.object(), 0)
	return nil
}

// errUnwritten refuses the successor of a process until everything that the former one may run is stored. After that, Agent
// status names the successor, and the next leader would not wait for the former process.
var errUnwritten = errors.New("an assignment of the process before is being stored: connect again")

// writeHoldsOfOthers requests a write of what other processes of an agent hold, or may hold, and reports whether there is any.
func (b *Board) writeHoldsOfOthers(member *agent, by Process) bool {
	unwritten := false
	for _, of := range member.holds {
		if held := of.held; held.sent && held.process != by && of.stored < held.epoch {
			unwritten = true
			b.config.Tasks.After(of.name, 0)
		}
	}
	for _, lone := range member.strays {
		if lone.process != by && b.mayBeUnwritten(lone) {
			unwritten = true
			b.config.Tasks.After(taskOf(lone.attempt), 0)
		}
	}
	return unwritten
}

// mayBeUnwritten reports whether a stray may run without being stored, so that the next leader waits for it only if Agent
// status names its process: its task is still being looked for, or as far as this leader can know it was never assigned, and
// cannot be stored.
func (b *Board) mayBeUnwritten(lone *stray) bool {
	return !lone.ended && !lone.refused && (lone.contests || b.tasks[taskOf(lone.attempt)] == nil)
}

const (
	// passOverAtMost bounds how far one Hello moves the sequence, and passOverInAll how far all Hellos of a term do
	// together. So lying agents can use up 1/256 of a term, however often they connect, and no Hello ends a term. Beyond
	// that, epochs that this leader has not issued are impossible.
	passOverAtMost = 1 << 16
	passOverInAll  = 1 << 24
)

// passOver moves the sequence above epochs of this term that this leader has not issued. If the Lease and the Secret were
// both deleted, terms have restarted, and these epochs come from an earlier leader of the same term.
func (b *Board) passOver(hello *linkv1.Hello) {
	newest := b.newestEpoch()
	highest := newest + min(passOverAtMost, passOverInAll-b.skipped)
	for attempt := range named(hello) {
		if epoch := attempt.Epoch; epoch > b.newestEpoch() && epoch <= highest && epoch>>32 == b.config.Leadership.Term() {
			b.sequence = epoch & math.MaxUint32
		}
	}
	b.skipped += b.newestEpoch() - newest
}

// named returns the attempts that an agent has named.
func named(hello *linkv1.Hello) map[linkv1.AttemptKey]bool {
	all := map[linkv1.AttemptKey]bool{}
	for _, attempt := range hello.GetRunning() {
		all[attempt.Key()] = true
	}
	for _, result := range hello.GetUnacknowledged() {
		all[result.GetAttempt().Key()] = true
	}
	return all
}

// confirm is called when the agent has sent anything after its Hello, which it does once it is welcomed. Until then the Hello
// may have been in transit for a long time: the agent may have abandoned the stream, and have received work from another
// leader since.
func (b *Board) confirm(member *agent) {
	if member.named != nil && !member.partial {
		b.complete(member)
	}
}

// complete draws conclusions from the attempts that an agent has not named, once it has named everything. A process that does
// not name an attempt does not have it. That proves nothing about other processes, whether of the same pod or of another one
// of the same name.
func (b *Board) complete(member *agent) {
	for _, of := range member.holds {
		if held := of.held; held.sent && held.process == member.process && !member.named[of.attemptOf(held).Key()] {
			b.miss(of)
		}
	}
	for key, lone := range member.strays {
		if lone.process == member.process && !member.named[key] {
			b.drop(member, key)
		}
	}
	member.named = nil
	b.hasSpoken(member, Process{PodUID: member.process.PodUID})
	b.hasSpoken(member, member.process)
}

// hasSpoken ends the wait for a process that has reported what it runs, or that runs nothing.
func (b *Board) hasSpoken(member *agent, process Process) {
	swarm, awaited := b.swarmOf(member.swarm), awaitedProcess{member.name, process}
	if _, found := swarm.awaited[awaited]; found {
		delete(swarm.awaited, awaited)
		b.config.Agents.After(member.object(), 0) // its successor may be recorded now
	}
	b.stir(swarm)
}

// miss ends an attempt that its agent does not have. A process that names itself has never received it, which costs the task
// nothing. For older agents only the pod is known: the process that had the attempt may have ended.
func (b *Board) miss(of *entry) {
	held := of.held
	if held.process.ID == "" {
		b.lose(of, "its agent started anew")
		return
	}
	of.ended = &End{
		Agent: held.agent.name.Name, Attempt: held.attempt, Epoch: held.epoch, Since: held.since, Outcome: linkv1.Outcome_OUTCOME_DECLINED,
		Undelivered: true, Reason: string(v1alpha1.ReasonNotDelivered),
		Message: "the assignment did not reach agent " + held.agent.name.Name, from: held.agent.name,
	}
	b.release(of)
	held.agent.setBack(time.Now())
	b.metrics.undelivered.Inc()
	b.config.Tasks.After(of.name, 0)
}

// resume takes over an attempt that a process of an agent reports as running.
func (b *Board) resume(member *agent, by Process, attempt *linkv1.Attempt) {
	of := b.tasks[taskOf(attempt)]
	switch {
	case of == nil:
		b.keep(member, &stray{attempt: attempt})
	case string(of.uid) != attempt.GetTaskUid(), of.swarm != member.swarm:
		b.stop(member, attempt)
	case b.isImpossible(attempt.GetEpoch()):
		b.contest(member, of, attempt)
	case of.held != nil && of.held.epoch == attempt.GetEpoch() && of.held.mayBeOf(member, by):
		of.held.process, of.held.restored, of.held.expires, of.held.stopped = by, false, time.Time{}, GoOn
		b.config.Tasks.After(of.name, 0)
	case attempt.GetEpoch() > of.epoch:
		b.supersede(of)
		b.take(of, &hold{
			agent: member, process: by, attempt: attempt.GetAttempt(), epoch: attempt.GetEpoch(), since: time.Now(), first: true, sent: true,
		})
		of.ended = nil
		b.config.Tasks.After(of.name, 0)
	default:
		b.stop(member, attempt)
	}
}

// stop ends an attempt that an agent must not run.
func (b *Board) stop(member *agent, attempt *linkv1.Attempt) {
	b.metrics.stale(staleRunning)
	if b.addStray(member, &stray{attempt: attempt}) {
		b.order(member, attempt, Cancel)
	}
}

// isImpossible reports whether no leader can have issued an epoch: this one has not, and all others had earlier terms.
func (b *Board) isImpossible(epoch int64) bool { return epoch <= 0 || epoch > b.newestEpoch() }

// contest stops an attempt whose epoch is impossible. The agent may lie. It may also tell the truth, if the Lease and the
// Secret were both deleted, so that terms restarted. So its task is assigned to no other agent as long as this one may be
// running it.
func (b *Board) contest(member *agent, of *entry, attempt *linkv1.Attempt) {
	b.stop(member, attempt)
	if lone := member.strays[attempt.Key()]; lone != nil && !lone.contests {
		lone.contests = true
		b.contested[of.uid]++
		b.queue(of)
	}
}

// Received implements link.Events.
func (b *Board) Received(name link.Agent, message *linkv1.AgentMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	member := b.agents[name]
	if member == nil {
		return
	}
	if message.GetComplete() != nil {
		member.partial = false
	}
	b.confirm(member)
	switch kind := message.GetKind().(type) {
	case *linkv1.AgentMessage_Result:
		b.conclude(member, kind.Result)
	case *linkv1.AgentMessage_Progress:
		b.advance(member, kind.Progress)
	case *linkv1.AgentMessage_Credit:
		member.granted, member.draining = max(member.granted, kind.Credit.GetGranted()), kind.Credit.GetDraining()
		b.stir(b.swarmOf(member.swarm))
	case *linkv1.AgentMessage_Goodbye:
		b.bury(member, member.process)
	}
}

// advance records progress. Only a finished task has reached 100.
func (b *Board) advance(member *agent, progress *linkv1.Progress) {
	attempt := progress.GetAttempt()
	of := b.tasks[taskOf(attempt)]
	if of == nil && member.isToBeResumed(attempt) {
		return // its task is being looked for: the attempt is resumed with the task, or refused if there is none
	}
	if of == nil || of.held == nil || of.swarm != member.swarm || of.held.agent != member || of.held.epoch != attempt.GetEpoch() || string(of.uid) != attempt.GetTaskUid() {
		b.metrics.stale(staleProgress)
		b.order(member, attempt, Cancel)
		return
	}
	percent := min(max(progress.GetPercent(), of.held.progress), 99)
	if percent == of.held.progress && progress.GetMessage() == of.held.message {
		return
	}
	of.held.progress, of.held.message = percent, progress.GetMessage()
	if of.stored == of.held.epoch {
		b.config.Tasks.After(of.name, shownEvery-min(time.Since(of.wrote), shownEvery))
	}
}

// isToBeResumed reports whether the linked process has named an attempt as running whose task the board does not know yet.
func (a *agent) isToBeResumed(attempt *linkv1.Attempt) bool {
	lone := a.strays[attempt.Key()]
	return lone != nil && !lone.ended && !lone.refused && lone.process == a.process
}

// Left implements link.Events, also for an agent that has not joined. The agent keeps what it holds until it can no longer be working.
func (b *Board) Left(name link.Agent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	member := b.agents[name]
	if member == nil {
		return
	}
	member.attached, member.linked = false, false
	over := b.over(member)
	for _, of := range member.holds {
		if of.held.expires.IsZero() {
			of.held.expires = over
		}
	}
	for _, lone := range member.strays {
		if lone.until.IsZero() {
			lone.until = over
		}
	}
	b.stir(b.swarmOf(member.swarm))
	b.config.Agents.After(member.object(), 0)
	b.discard(member)
}

func taskOf(attempt *linkv1.Attempt) types.NamespacedName {
	return types.NamespacedName{Namespace: attempt.GetNamespace(), Name: attempt.GetTask()}
}
