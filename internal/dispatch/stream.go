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

// shownEvery is how often the load of an agent is written, at most.
const shownEvery = 10 * time.Second

// Joined implements link.Events: an agent tells what it runs and what it never got acknowledged.
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

// errUnwritten turns the successor of a process away until everything that the former one may run is stored. From then on Agent status names the
// successor, and the next leader would not wait for the former one.
var errUnwritten = errors.New("an assignment of the process before is being stored: connect again")

// writeHoldsOfOthers has what other processes of an agent hold, or may, written, and reports whether there is any.
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

// mayBeUnwritten reports whether a stray may run without being stored, so that only the process which Agent status names has the next leader wait for
// it: its task is still being looked for, or it was never given out as far as this leader can know, and cannot be stored.
func (b *Board) mayBeUnwritten(lone *stray) bool {
	return !lone.ended && !lone.refused && (lone.contests || b.tasks[taskOf(lone.attempt)] == nil)
}

const (
	// passOverAtMost bounds how far one Hello moves the sequence, and passOverInAll how far all Hellos of a term do together. So agents that lie can use up
	// one 256th of a term, however often they connect, and no Hello ends a term. Beyond that, epochs that this leader has not given out are impossible.
	passOverAtMost = 1 << 16
	passOverInAll  = 1 << 24
)

// passOver moves the sequence above epochs of this term that this leader has not given out. If the Lease and the Secret were both deleted, terms have
// begun again, and these are of an earlier leader of the same term.
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

// named are the attempts that an agent has mentioned.
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

// confirm is called when the agent has said anything after its Hello, which it does once it is welcomed. Until then the Hello may be one that was
// under way for long: the agent may have given the stream up, and have got work from another leader since.
func (b *Board) confirm(member *agent) {
	if member.named != nil && !member.partial {
		b.complete(member)
	}
}

// complete draws conclusions from what an agent has not named, once it has named everything. A process that does not name an attempt does
// not have it. That says nothing about other processes, whether of the same pod or of another one of the same name.
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

// hasSpoken ends the wait for a process that has said what it runs, or that runs nothing.
func (b *Board) hasSpoken(member *agent, process Process) {
	swarm, awaited := b.swarmOf(member.swarm), awaitedProcess{member.name, process}
	if _, found := swarm.awaited[awaited]; found {
		delete(swarm.awaited, awaited)
		b.config.Agents.After(member.object(), 0) // its successor may be recorded now
	}
	b.stir(swarm)
}

// miss ends an attempt that its agent does not have. A process that names itself has never received it, which costs the task nothing. Of
// older agents only the pod is known: the process that had it may have ended.
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

// resume takes up what a process of an agent says it runs.
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

// stop ends what an agent has no business to run.
func (b *Board) stop(member *agent, attempt *linkv1.Attempt) {
	b.metrics.stale(staleRunning)
	if b.addStray(member, &stray{attempt: attempt}) {
		b.order(member, attempt, Cancel)
	}
}

// isImpossible reports whether no leader can have given out an epoch: this one has not, and all others had earlier terms.
func (b *Board) isImpossible(epoch int64) bool { return epoch <= 0 || epoch > b.newestEpoch() }

// contest stops an attempt whose epoch is impossible. The agent may lie. It may also tell the truth, if the Lease and the Secret were both deleted, so
// that terms began again. So its task is given to no other agent as long as this one may be running it.
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

// advance notes progress. Only a finished task has reached 100.
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

// isToBeResumed reports whether the process that is linked has named an attempt as running whose task the board does not know yet.
func (a *agent) isToBeResumed(attempt *linkv1.Attempt) bool {
	lone := a.strays[attempt.Key()]
	return lone != nil && !lone.ended && !lone.refused && lone.process == a.process
}

// Left implements link.Events, also for an agent that has not joined. What the agent holds stays its own until it can no longer be working.
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
