package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/assign"
	"github.com/swarm-io/swarm-operator/internal/roster"
)

// situation is the input of a plan of the operator. Unlike the operator, it treats every worker as ready.
type situation struct {
	pool     *v1alpha1.WorkerPool
	workload workload
	lists    published
	history  []kept
}

func (p published) file() roster.File { return roster.File{Version: p.version, Workers: p.entries} }

func (c cluster) situation(ctx context.Context, pool *v1alpha1.WorkerPool) (s situation, err error) {
	s.pool = pool
	if s.workload, err = c.workload(ctx, pool); err != nil {
		return s, err
	}
	if s.lists, err = c.published(ctx, pool); err != nil {
		return s, err
	}
	s.history, err = c.history(ctx, pool)
	return s, err
}

// question is the change to plan.
type question struct {
	replicas    int // negative: unchanged
	add, remove []string
	strategy    assign.Strategy // "": unchanged
}

// asItIs changes nothing.
var asItIs = question{replicas: -1}

// size returns the number of workers after the change.
func (s situation) size(q question) int {
	switch {
	case q.replicas >= 0:
		return q.replicas
	case s.pool.Spec.Replicas != nil:
		return int(*s.pool.Spec.Replicas)
	}
	return s.workload.replicas
}

// input returns the input of the assignment.
func (s situation) input(q question, jobs []assign.Job, records []assign.Record) (assign.Input, error) {
	list, problems := assign.List(slices.Clone(jobs))
	if len(problems) > 0 {
		return assign.Input{}, fmt.Errorf("%s: correct the list, which the operator refuses whole", problems[0].Reason)
	}
	return assign.Input{
		Jobs: list, Workers: s.workload.workers(s.size(q), int(s.pool.Spec.CapacityPerWorker), records),
		Strategy: cmp.Or(q.strategy, assign.Strategy(s.pool.Spec.Strategy), assign.Sticky), ImbalancePercent: int(s.pool.Spec.ImbalancePercent),
	}, nil
}

// records returns what workers may hold. Unlike the operator, which asks them, it takes acknowledgments from the status.
func (s situation) records() []assign.Record {
	records := s.workload.records(s.lists)
	if s.pool.Status.Version != s.lists.version {
		return records // the status is about another config
	}
	heard := map[string]bool{}
	for _, worker := range s.pool.Status.Workers {
		heard[worker.Name] = worker.Acknowledged == v1alpha1.AckReceived || worker.Acknowledged == v1alpha1.AckAssumed
	}
	all := len(s.history) > 0 && s.pool.Status.ConvergedRevision == s.history[len(s.history)-1].number
	for n, record := range records {
		if all || heard[record.Worker] {
			records[n] = record.Seen("heard").Confirmed("heard", record.Lists[len(record.Lists)-1].Version)
		}
	}
	return records
}

// newest returns the newest kept revision, nil for none.
func (s situation) newest() *assign.Revision {
	if len(s.history) == 0 {
		return nil
	}
	newest := s.history[len(s.history)-1].data
	return assign.Restore(newest.Shares(), newest.Algorithm)
}

// ahead returns what the operator would do after a change. While the newest revision is still the answer, it is followed, also if it
// has yet to be carried out.
func (s situation) ahead(q question, jobs []assign.Job) (forecast, error) {
	records, newest := s.records(), s.newest()
	input, err := s.input(q, jobs, records)
	if err != nil {
		return forecast{}, err
	}
	before := assign.Basis(newest, records)
	made := s.forecast(q, input.Strategy, jobs)
	if newest != nil {
		input.Previous = newest
		if decision := assign.Plan(input); decision.Refused == "" && decision.Next.Same(newest) {
			return made.follow(decision, before, records, reasons{"the newest revision, which is being carried out, has it there", "it is no longer in the list"}), nil
		}
	}
	input.Previous = before
	decision := assign.Plan(input)
	if decision.Refused != "" {
		return forecast{}, errors.New(decision.Refused + ": try another --strategy")
	}
	return made.follow(decision, before, records, reasons{}), nil // the decision has them all
}

// back returns what the operator would do if a kept revision were pinned: its jobs, where they were, as far as those workers exist.
func (s situation) back(to kept) (forecast, error) {
	records, jobs := s.records(), to.data.Jobs()
	input, err := s.input(asItIs, jobs, records)
	if err != nil {
		return forecast{}, err
	}
	input.Previous, input.Strategy = assign.Restore(to.data.Shares(), 0), assign.Sticky
	made := s.forecast(asItIs, input.Strategy, jobs)
	made.Revision = to.number
	otherwise := reasons{fmt.Sprintf("revision %d has it there", to.number), fmt.Sprintf("revision %d does not have it", to.number)}
	return made.follow(assign.Plan(input), assign.Basis(s.newest(), records), records, otherwise), nil
}

func (s situation) forecast(q question, strategy assign.Strategy, jobs []assign.Job) forecast {
	made := forecast{
		Namespace: s.pool.Namespace, Pool: s.pool.Name, Strategy: string(strategy), Handoff: string(cmp.Or(s.pool.Spec.Handoff, v1alpha1.HandoffExclusive)),
		Jobs: len(jobs), SizeBefore: len(s.lists.entries), SizeAfter: s.size(q), jobs: jobs,
	}
	if s.pool.Spec.Mode == v1alpha1.PoolPaused {
		made.Notes = append(made.Notes, "the pool is paused: nothing moves before spec.mode is Running")
	}
	return made
}
