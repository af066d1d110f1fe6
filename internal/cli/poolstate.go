package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

// poolState is the input of a plan of the operator. Unlike the operator, it treats every worker as ready.
type poolState struct {
	pool     *v1alpha1.WorkerPool
	workload poolWorkload
	lists    publishedLists
	history  []storedRevision
}

func (p publishedLists) file() codec.File {
	return codec.File{Version: p.version, Workers: p.entries}
}

func (c cluster) readPoolState(ctx context.Context, pool *v1alpha1.WorkerPool) (s poolState, err error) {
	s.pool = pool
	if s.workload, err = c.readWorkload(ctx, pool); err != nil {
		return s, err
	}
	if s.lists, err = c.readPublished(ctx, pool); err != nil {
		return s, err
	}
	s.history, err = c.readHistory(ctx, pool)
	return s, err
}

// poolChange is the change to plan.
type poolChange struct {
	replicas    int // negative: unchanged
	add, remove []string
	strategy    assign.Strategy // "": unchanged
}

// noChange changes nothing.
var noChange = poolChange{replicas: -1}

// size returns the number of workers after the change.
func (s poolState) size(change poolChange) int {
	switch {
	case change.replicas >= 0:
		return change.replicas
	case s.pool.Spec.Replicas != nil:
		return int(*s.pool.Spec.Replicas)
	}
	return s.workload.replicas
}

// input returns the input of the assignment.
func (s poolState) input(change poolChange, jobs []assign.Job, records []assign.Record) (assign.Input, error) {
	list, problems := assign.NewJobList(slices.Clone(jobs))
	if len(problems) > 0 {
		return assign.Input{}, fmt.Errorf("%s: correct the list, which the operator refuses whole", problems[0].Reason)
	}
	return assign.Input{
		Jobs: list, Workers: s.workload.workers(s.size(change), int(s.pool.Spec.CapacityPerWorker), records),
		Strategy:         cmp.Or(change.strategy, assign.Strategy(s.pool.Spec.Strategy), assign.Sticky),
		ImbalancePercent: int(s.pool.Spec.ImbalancePercent),
	}, nil
}

// records returns what workers may hold. Unlike the operator, which asks them, it takes acknowledgments from the status.
func (s poolState) records() []assign.Record {
	records := s.workload.records(s.lists)
	if s.pool.Status.Version != s.lists.version {
		return records // the status is about another config
	}
	acknowledged := map[string]bool{}
	for _, worker := range s.pool.Status.Workers {
		acknowledged[worker.Name] = worker.Acknowledged == v1alpha1.AckReceived || worker.Acknowledged == v1alpha1.AckAssumed
	}
	all := len(s.history) > 0 && s.pool.Status.ConvergedRevision == s.history[len(s.history)-1].number
	for n, record := range records {
		if all || acknowledged[record.Worker] {
			records[n] = record.WithPod("heard").WithAcknowledgement("heard", record.Lists[len(record.Lists)-1].Version)
		}
	}
	return records
}

// newestRevision returns the newest kept revision, nil for none.
func (s poolState) newestRevision() *assign.Revision {
	if len(s.history) == 0 {
		return nil
	}
	newest := s.history[len(s.history)-1].data
	return assign.Restore(newest.Shares(), newest.Algorithm)
}

// planChange returns what the operator would do after a change. While the newest revision is still the answer, it is followed, also if it
// has yet to be carried out.
func (s poolState) planChange(change poolChange, jobs []assign.Job) (planResult, error) {
	records, newest := s.records(), s.newestRevision()
	input, err := s.input(change, jobs, records)
	if err != nil {
		return planResult{}, err
	}
	before := assign.BaseRevision(newest, records)
	result := s.newPlanResult(change, input.Strategy, jobs)
	if newest != nil {
		input.Previous = newest
		if decision := assign.Plan(input); decision.RefusalReason == "" && decision.Next.Same(newest) {
			return result.withDecision(decision, before, records, defaultReasons{"the newest revision, which is being carried out, has it there",
				"it is no longer in the list"}), nil
		}
	}
	input.Previous = before
	decision := assign.Plan(input)
	if decision.RefusalReason != "" {
		return planResult{}, errors.New(decision.RefusalReason + ": try another --strategy")
	}
	return result.withDecision(decision, before, records, defaultReasons{}), nil // the decision has them all
}

// planRollback returns what the operator would do if a kept revision were pinned: its jobs, where they were, as far as those workers exist.
func (s poolState) planRollback(revision storedRevision) (planResult, error) {
	records, jobs := s.records(), revision.data.Jobs()
	input, err := s.input(noChange, jobs, records)
	if err != nil {
		return planResult{}, err
	}
	input.Previous, input.Strategy = assign.Restore(revision.data.Shares(), 0), assign.Sticky
	result := s.newPlanResult(noChange, input.Strategy, jobs)
	result.Revision = revision.number
	defaults := defaultReasons{fmt.Sprintf("revision %d has it there", revision.number),
		fmt.Sprintf("revision %d does not have it", revision.number)}
	return result.withDecision(assign.Plan(input), assign.BaseRevision(s.newestRevision(), records), records, defaults), nil
}

func (s poolState) newPlanResult(change poolChange, strategy assign.Strategy, jobs []assign.Job) planResult {
	result := planResult{
		Namespace: s.pool.Namespace, Pool: s.pool.Name, Strategy: string(strategy),
		Handoff: string(cmp.Or(s.pool.Spec.Handoff, v1alpha1.HandoffExclusive)),
		Jobs:    len(jobs), SizeBefore: len(s.lists.entries), SizeAfter: s.size(change), jobs: jobs,
	}
	if s.pool.Spec.Mode == v1alpha1.PoolPaused {
		result.Notes = append(result.Notes, "the pool is paused: nothing moves before spec.mode is Running")
	}
	return result
}
