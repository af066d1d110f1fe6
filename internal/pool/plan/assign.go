package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

func byOrdinal(a, b assign.Record) int {
	return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.Worker, b.Worker))
}

// assignJobs decides which worker gets which job: as in the newest revision if that is still correct, and as in a new one otherwise.
func (p *planner) assignJobs() {
	input, jobs := p.assignInput()
	if input.Jobs == nil || p.hasNoWorkersYet(input) {
		return
	}
	decision := assign.Plan(input)
	newest := p.snapshot.newestRevision()
	switch {
	case decision.RefusalReason != "":
		p.Problem = NewProblem(v1alpha1.ReasonNotSupported, "%s", decision.RefusalReason)
		return
	case p.Paused:
		p.Unassigned = decision.Unassigned
		return
	case newest != nil && decision.Next.Same(newest):
		p.setTarget(decision)
		return
	}
	if p.pool.Spec.RollbackTo == 0 {
		input.Previous = assign.BaseRevision(newest, p.records)
		decision = assign.Plan(input)
	}
	p.setTarget(decision)
	if newest == nil || !decision.Next.Same(newest) {
		p.planRevision(decision, jobs)
	}
}

// hasNoWorkersYet reports whether there is nothing to plan yet: no worker has participated so far, and none is ready.
func (p *planner) hasNoWorkersYet(input assign.Input) bool {
	return p.snapshot.newestRevision() == nil && len(p.records) == 0 &&
		!slices.ContainsFunc(input.Workers, func(w assign.Worker) bool { return w.State == assign.Ready })
}

// assignInput returns the input of the assignment. If the jobs cannot be read it uses those of the newest revision; a pinned revision has
// its own.
func (p *planner) assignInput() (assign.Input, []assign.Job) {
	current := p.snapshot.Jobs
	input := assign.Input{
		Jobs: current.list, Workers: p.memberSet.assignWorkers(), Previous: p.snapshot.newestRevision(),
		Strategy: assign.Strategy(p.pool.Spec.Strategy), ImbalancePercent: int(p.pool.Spec.ImbalancePercent),
	}
	jobs := current.Jobs
	p.Problem = p.memberSet.failoverProblem
	if current.Problem != nil {
		p.Problem = current.Problem
		if len(p.snapshot.History) > 0 {
			jobs = p.snapshot.History[len(p.snapshot.History)-1].Data.Jobs()
			input.Jobs, _ = assign.NewJobList(slices.Clone(jobs))
		}
	}
	if rollbackTo := p.pool.Spec.RollbackTo; rollbackTo > 0 {
		i := slices.IndexFunc(p.snapshot.History, func(r StoredRevision) bool { return r.Number == rollbackTo })
		if i < 0 {
			p.Problem = NewProblem(v1alpha1.ReasonRevisionNotFound, "revision %d is not kept any more: %s", rollbackTo, p.snapshot.rollbackChoices())
			return input, jobs
		}
		pinned := p.snapshot.History[i].Data
		jobs = pinned.Jobs()
		input.Jobs, _ = assign.NewJobList(slices.Clone(jobs))
		input.Previous, input.Strategy = assign.Restore(pinned.Shares(), 0), assign.Sticky
	}
	p.Jobs = len(jobs)
	return input, jobs
}

// setTarget makes a decision the target. A slot without a pod keeps its jobs, but has no worker to publish them to.
func (p *planner) setTarget(decision assign.Decision) {
	p.decision, p.Unassigned = decision, decision.Unassigned
	p.target = decision.Next.Shares()
	if p.snapshot.Workload.usesSlots() {
		p.target = slices.DeleteFunc(p.target, func(share assign.Share) bool { return p.podsByName[share.Worker] == nil })
	}
	if newest := p.snapshot.newestRevision(); newest != nil && decision.Next.Same(newest) {
		p.Followed, p.FollowsNewest = decision.Next, true
	}
}

// planRevision makes a new revision of a decision, with the versions that its handover will have if no other change comes first.
func (p *planner) planRevision(decision assign.Decision, jobs []assign.Job) {
	versions := map[string]int64{}
	for _, record := range p.records {
		if len(record.Lists) > 0 {
			versions[record.Worker] = record.Lists[len(record.Lists)-1].Version
		}
	}
	version := p.Version
	for _, step := range assign.SimulateHandover(p.target, p.records, assign.Handoff(p.pool.Spec.Handoff)) {
		version++
		for _, share := range step.Publish {
			versions[share.Worker] = version
		}
	}
	data := codec.Revision{Strategy: string(p.pool.Spec.Strategy), Algorithm: decision.Next.Algorithm(), Version: version,
		Workers: []codec.RevisionShare{}}
	for _, share := range decision.Next.Shares() {
		data.Workers = append(data.Workers, codec.RevisionShare{Worker: share.Worker, Ordinal: share.Ordinal, Version: versions[share.Worker],
			Jobs: share.Jobs})
	}
	for _, job := range decision.Unassigned {
		data.Unassigned = append(data.Unassigned, job.Job)
	}
	data.SetJobAttributes(jobs)
	encoded, err := data.Encode()
	if err != nil {
		p.Problem, p.target = NewProblem(v1alpha1.ReasonConfigTooLarge, "%v: use shorter names, or several pools", err), nil
		return
	}
	if !IsPlausible(p.RevisionNumber + 1) {
		p.Problem, p.target = NewProblem(v1alpha1.ReasonNotSupported,
			"no revision can follow %d: delete the ControllerRevisions of the pool with numbers from %d on, which the operator has not given out",
			p.RevisionNumber, int64(MaxStatusNumber)), nil
		return
	}
	p.RevisionNumber++
	p.FollowsNewest = true
	p.NewRevision = &StoredRevision{Number: p.RevisionNumber, Data: data, Encoded: encoded, Index: decision.Next}
	p.RevisionMessage = p.describeRevision(decision)
}

// describeRevision summarizes what a new revision moves.
func (p *planner) describeRevision(decision assign.Decision) string {
	before := map[string]int{}
	for _, share := range p.snapshot.newestRevision().Shares() {
		for _, job := range share.Jobs {
			before[job] = share.Ordinal
		}
	}
	moved, added := 0, 0
	for _, share := range decision.Next.Shares() {
		for _, job := range share.Jobs {
			ordinal, existed := before[job]
			delete(before, job)
			switch {
			case !existed:
				added++
			case ordinal != share.Ordinal:
				moved++
			}
		}
	}
	message := fmt.Sprintf("revision %d: of %d jobs %d move, %d are given out, %d are taken back", p.RevisionNumber, p.Jobs, moved, added,
		len(before))
	if rollbackTo := p.pool.Spec.RollbackTo; rollbackTo > 0 {
		return fmt.Sprintf("%s, as revision %d has them", message, rollbackTo)
	}
	if moves := decision.Moves(); len(moves) > 0 {
		message += fmt.Sprintf("; %s: %s", moves[0].Job, moves[0].Reason)
	}
	return message
}
