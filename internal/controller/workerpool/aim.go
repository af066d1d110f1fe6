package workerpool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/assign"
	"github.com/swarm-io/swarm-operator/internal/roster"
)

func byOrdinal(a, b assign.Record) int {
	return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.Worker, b.Worker))
}

// aim decides which worker gets which job: as in the newest revision if that is still correct, and as in a new one otherwise.
func (d *draft) aim() {
	input, all := d.input()
	if input.Jobs == nil || d.idle(input) {
		return
	}
	decision := assign.Plan(input)
	newest := d.world.newest()
	switch {
	case decision.RefusalReason != "":
		d.Problem = refuse(v1alpha1.ReasonNotSupported, "%s", decision.RefusalReason)
		return
	case d.Paused:
		d.Unassigned = decision.Unassigned
		return
	case newest != nil && decision.Next.Same(newest):
		d.follow(decision)
		return
	}
	if d.pool.Spec.RollbackTo == 0 {
		input.Previous = assign.BaseRevision(newest, d.records)
		decision = assign.Plan(input)
	}
	d.follow(decision)
	if newest == nil || !decision.Next.Same(newest) {
		d.keep(decision, all)
	}
}

// idle reports whether there is nothing to plan yet: no worker has participated so far, and none is ready.
func (d *draft) idle(input assign.Input) bool {
	return d.world.newest() == nil && len(d.records) == 0 && !slices.ContainsFunc(input.Workers, func(w assign.Worker) bool { return w.State == assign.Ready })
}

// input returns the input of the assignment. If the jobs cannot be read it uses those of the newest revision; a pinned revision has its
// own.
func (d *draft) input() (assign.Input, []assign.Job) {
	read := d.memory.jobs
	input := assign.Input{
		Jobs: read.list, Workers: d.crew.workers(), Previous: d.world.newest(),
		Strategy: assign.Strategy(d.pool.Spec.Strategy), ImbalancePercent: int(d.pool.Spec.ImbalancePercent),
	}
	all := read.all
	d.Problem = d.crew.frozen
	if read.refused != nil {
		d.Problem = read.refused
		if len(d.world.history) > 0 {
			all = d.world.history[len(d.world.history)-1].data.Jobs()
			input.Jobs, _ = assign.NewJobList(slices.Clone(all))
		}
	}
	if pin := d.pool.Spec.RollbackTo; pin > 0 {
		at := slices.IndexFunc(d.world.history, func(k kept) bool { return k.number == pin })
		if at < 0 {
			d.Problem = refuse(v1alpha1.ReasonRevisionNotFound, "revision %d is not kept any more: %s", pin, d.world.kept())
			return input, all
		}
		pinned := d.world.history[at].data
		all = pinned.Jobs()
		input.Jobs, _ = assign.NewJobList(slices.Clone(all))
		input.Previous, input.Strategy = assign.Restore(pinned.Shares(), 0), assign.Sticky
	}
	d.Jobs = len(all)
	return input, all
}

// kept lists the stored revisions.
func (w world) kept() string {
	var numbers []string
	for _, revision := range w.history {
		numbers = append(numbers, fmt.Sprint(revision.number))
	}
	return "choose one of " + strings.Join(numbers, ", ") + ", or remove rollbackTo"
}

// follow makes a decision the target. A slot without a pod keeps its jobs, but has no worker to publish them to.
func (d *draft) follow(decision assign.Decision) {
	d.Unassigned = decision.Unassigned
	d.target = decision.Next.Shares()
	if d.world.workload.slotted() {
		d.target = slices.DeleteFunc(d.target, func(share assign.Share) bool { return d.present[share.Worker] == nil })
	}
	if d.memory.kept != nil && decision.Next.Same(d.memory.kept.index) {
		d.memory.kept.index = decision.Next // with the indexes of the current list
		d.memory.follows = true
	}
}

// keep makes a new revision of a decision, with the versions that its handover will have if no other change comes first.
func (d *draft) keep(decision assign.Decision, all []assign.Job) {
	versions := map[string]int64{}
	for _, record := range d.records {
		if len(record.Lists) > 0 {
			versions[record.Worker] = record.Lists[len(record.Lists)-1].Version
		}
	}
	final := d.Version
	for _, step := range assign.SimulateHandover(d.target, d.records, assign.Handoff(d.pool.Spec.Handoff)) {
		final++
		for _, share := range step.Publish {
			versions[share.Worker] = final
		}
	}
	data := roster.Revision{Strategy: string(d.pool.Spec.Strategy), Algorithm: decision.Next.Algorithm(), Version: final, Workers: []roster.RevisionShare{}}
	for _, share := range decision.Next.Shares() {
		data.Workers = append(data.Workers, roster.RevisionShare{Worker: share.Worker, Ordinal: share.Ordinal, Version: versions[share.Worker], Jobs: share.Jobs})
	}
	for _, job := range decision.Unassigned {
		data.Unassigned = append(data.Unassigned, job.Job)
	}
	data.SetJobAttributes(all)
	encoded, err := data.Encode()
	if err != nil {
		d.Problem, d.target = refuse(v1alpha1.ReasonConfigTooLarge, "%v: use shorter names, or several pools", err), nil
		return
	}
	if !believed(d.Number + 1) {
		d.Problem, d.target = refuse(v1alpha1.ReasonNotSupported,
			"no revision can follow %d: delete the ControllerRevisions of the pool with numbers from %d on, which the operator has not given out",
			d.Number, int64(mostInStatus)), nil
		return
	}
	d.Number++
	d.memory.follows = true
	d.Revision = &kept{number: d.Number, data: data, encoded: encoded, index: decision.Next}
	d.News = d.tell(decision)
}

// tell summarizes what a new revision moves.
func (d *draft) tell(decision assign.Decision) string {
	before := map[string]int{}
	for _, share := range d.world.newest().Shares() {
		for _, job := range share.Jobs {
			before[job] = share.Ordinal
		}
	}
	moved, added := 0, 0
	for _, share := range decision.Next.Shares() {
		for _, job := range share.Jobs {
			ordinal, had := before[job]
			delete(before, job)
			switch {
			case !had:
				added++
			case ordinal != share.Ordinal:
				moved++
			}
		}
	}
	said := fmt.Sprintf("revision %d: of %d jobs %d move, %d are given out, %d are taken back", d.Number, d.Jobs, moved, added, len(before))
	if pin := d.pool.Spec.RollbackTo; pin > 0 {
		return fmt.Sprintf("%s, as revision %d has them", said, pin)
	}
	if moves := decision.Moves(); len(moves) > 0 {
		said += fmt.Sprintf("; %s: %s", moves[0].Job, moves[0].Reason)
	}
	return said
}
