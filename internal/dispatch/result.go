package dispatch

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// conclude accepts a result if it is of the attempt that counts. Any other result is too old to matter, and is acknowledged
// so that the agent does not send it again.
func (b *Board) conclude(member *agent, result *linkv1.Result) {
	attempt := result.GetAttempt()
	of := b.tasks[taskOf(attempt)]
	switch {
	case of == nil:
		b.keep(member, &stray{attempt: attempt, ended: true})
		return
	case of.ended != nil && of.ended.Epoch == attempt.GetEpoch() && (!of.ended.Lost || result.GetOutcome() != linkv1.Outcome_OUTCOME_SUCCEEDED):
		// The end of the attempt, or its loss, is being stored. The agent keeps its result until then, and sends it again.
	case of.swarm == member.swarm && !b.isImpossible(attempt.GetEpoch()) && of.awaits(member, result):
		b.accept(of, member, result)
	default:
		b.metrics.stale(staleResult)
		b.acknowledge(member.name, attempt)
	}
	b.drop(member, attempt.Key())
}

// drop forgets a stray, which frees its room at the agent.
func (b *Board) drop(member *agent, key linkv1.AttemptKey) {
	lone := member.strays[key]
	if lone == nil {
		return
	}
	b.removeStray(member, lone)
	b.stir(b.swarmOf(member.swarm))
	b.settle(member)
}

// awaits reports whether a result is of the attempt that counts: the one that is held; one that an earlier leader assigned
// and never wrote; or one that was given up as lost, was not reassigned since, and has succeeded after all.
func (e *entry) awaits(member *agent, result *linkv1.Result) bool {
	epoch := result.GetAttempt().GetEpoch()
	switch {
	case string(e.uid) != result.GetAttempt().GetTaskUid():
		return false
	case e.held != nil:
		return e.held.epoch == epoch && e.held.agent == member || epoch > e.epoch
	case epoch > e.epoch:
		return true
	}
	return epoch == e.epoch && result.GetOutcome() == linkv1.Outcome_OUTCOME_SUCCEEDED
}

func (b *Board) accept(of *entry, member *agent, result *linkv1.Result) {
	attempt := result.GetAttempt()
	since, asked := time.Now(), false
	if of.held != nil {
		since, asked = of.held.since, of.held.stopped != GoOn
	}
	if of.held != nil && of.held.epoch != attempt.GetEpoch() {
		b.supersede(of)
	}
	b.release(of)
	of.epoch, of.attempt = max(of.epoch, attempt.GetEpoch()), max(of.attempt, attempt.GetAttempt())
	of.ended = &End{
		Agent: member.name.Name, Attempt: attempt.GetAttempt(), Epoch: attempt.GetEpoch(), Since: since,
		Outcome: result.GetOutcome(), Value: result.GetValue(), Reason: result.GetReason(), Message: result.GetMessage(),
		from: member.name,
	}
	switch result.GetOutcome() {
	case linkv1.Outcome_OUTCOME_SUCCEEDED:
		member.completed++
		member.works()
	case linkv1.Outcome_OUTCOME_FAILED, linkv1.Outcome_OUTCOME_BAD_INPUT, linkv1.Outcome_OUTCOME_RETRY:
		member.failed++
		member.works()
	default:
		if !asked {
			member.setBack(time.Now())
		}
	}
	b.metrics.ended(result.GetOutcome())
	b.queue(of)
	b.config.Tasks.After(of.name, 0)
	b.config.Agents.After(member.object(), shownEvery)
}

// lose gives up an attempt whose end will never be reported.
func (b *Board) lose(of *entry, why string) {
	held := of.held
	of.ended = &End{
		Agent: held.agent.name.Name, Attempt: held.attempt, Epoch: held.epoch, Since: held.since, Lost: true,
		Reason: "LinkLost", Message: "agent " + held.agent.name.Name + " was lost: " + why,
	}
	b.release(of)
	b.metrics.lost.Inc()
	b.config.Tasks.After(of.name, 0)
}

// keep remembers an attempt of a task that the board does not know, and has its controller look for the task: if it exists,
// Observe gets it, and if not, Forget. A result is not kept: the agent sends it again.
func (b *Board) keep(member *agent, lone *stray) {
	if b.addStray(member, lone) {
		b.config.Tasks.After(taskOf(lone.attempt), 0)
	}
}

// Reported reports whether agents name attempts of a task that the board does not know.
func (b *Board) Reported(name types.NamespacedName) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.strayed[name] > 0
}

// adoptStrays gives a new entry what agents have already reported about it.
func (b *Board) adoptStrays(of *entry) {
	if b.strayed[of.name] == 0 {
		return
	}
	for _, member := range b.agents {
		for _, lone := range slices.Collect(maps.Values(member.strays)) { // resume may add some
			switch {
			case taskOf(lone.attempt) != of.name:
				continue
			case lone.attempt.GetTaskUid() != string(of.uid):
				b.refuse(member, lone)
				continue
			}
			b.removeStray(member, lone)
			b.resume(member, lone.process, lone.attempt) // also if it has ended: its result comes again
			if of.held != nil && of.held.agent == member && of.held.process == lone.process {
				of.held.expires = lone.until
			}
		}
	}
}

// refuseStrays ends what agents report about a task that is over, and about earlier ones of the same name.
func (b *Board) refuseStrays(name types.NamespacedName) {
	if b.strayed[name] == 0 {
		return
	}
	for _, member := range b.agents {
		for _, lone := range member.strays {
			if taskOf(lone.attempt) == name {
				b.refuse(member, lone)
			}
		}
	}
}

// refuse informs an agent that an attempt is not wanted. While it runs, it keeps its slot.
func (b *Board) refuse(member *agent, lone *stray) {
	lone.refused = true
	if !lone.ended {
		b.order(member, lone.attempt, Cancel)
		return
	}
	b.metrics.stale(staleResult)
	b.acknowledge(member.name, lone.attempt)
	b.drop(member, lone.attempt.Key())
}
