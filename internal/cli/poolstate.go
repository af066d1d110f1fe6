package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
	"github.com/swarm-io/swarm-operator/internal/pool/state"
)

// poolState is what the operator plans from.
type poolState struct {
	pool     *v1alpha1.WorkerPool
	snapshot plan.Snapshot
	session  *session
}

// readPoolState reads a pool as the operator does. What the operator would restore is an error, because a plan would not be about it.
func (c cluster) readPoolState(ctx context.Context, s *session, pool *v1alpha1.WorkerPool) (poolState, error) {
	result := poolState{pool: pool, session: s}
	var err error
	if result.snapshot, err = state.Read(ctx, c, pool); err != nil {
		return result, err
	}
	if problem := result.snapshot.Problem; problem != nil {
		return result, errors.New(problem.Message)
	}
	return result, checkConfigMaps(result.snapshot.Published)
}

// readPublished reads what was published for the workers of a pool.
func (c cluster) readPublished(ctx context.Context, pool *v1alpha1.WorkerPool) (plan.Published, error) {
	objects, err := state.ConfigMaps(ctx, c, pool)
	if err != nil {
		return plan.Published{}, err
	}
	published, problem, err := state.Published(ctx, c, pool, objects, func(object *corev1.ConfigMap) *plan.ConfigMap {
		return plan.ParseConfigMap(object, pool.ConfigKey())
	})
	if err == nil && problem != nil {
		err = errors.New(problem.Message)
	}
	if err != nil {
		return published, err
	}
	return published, checkConfigMaps(published)
}

// checkConfigMaps returns an error if a ConfigMap cannot be read.
func checkConfigMaps(published plan.Published) error {
	for _, name := range slices.Sorted(maps.Keys(published.ConfigMaps)) {
		if err := published.ConfigMaps[name].Err; err != nil {
			return fmt.Errorf("ConfigMap %q: %w: delete it and let the operator write it anew", name, err)
		}
	}
	return nil
}

// readJobs returns the jobs of a pool.
func (c cluster) readJobs(ctx context.Context, pool *v1alpha1.WorkerPool) ([]assign.Job, error) {
	sources, err := state.JobSources(ctx, c, pool)
	if err != nil {
		return nil, err
	}
	jobs := plan.Jobs{}.Update(pool, sources)
	if jobs.Problem != nil {
		return nil, errors.New(jobs.Problem.Message)
	}
	return jobs.Jobs, nil
}

// poolChange is the change to plan.
type poolChange struct {
	replicas    int // negative: unchanged
	add, remove []string
	strategy    assign.Strategy // "": unchanged
}

// noChange changes nothing.
var noChange = poolChange{replicas: -1}

// planChange returns what the operator would do after a change. A pin is ignored: the plan is about the time after it.
func (s poolState) planChange(change poolChange) (planResult, error) {
	pool, snapshot := s.pool.DeepCopy(), s.snapshot
	pool.Spec.RollbackTo = 0
	pool.Spec.Strategy = v1alpha1.PoolStrategy(cmp.Or(string(change.strategy), string(pool.Spec.Strategy)))
	if change.replicas >= 0 {
		pool.Spec.Replicas, snapshot.Workload.Replicas = nil, change.replicas
	}
	if snapshot.Jobs.Problem != nil {
		return planResult{}, errors.New(snapshot.Jobs.Problem.Message)
	}
	jobs, err := change.apply(slices.Clone(snapshot.Jobs.Jobs))
	if err != nil {
		return planResult{}, err
	}
	if snapshot.Jobs = plan.NewJobs(jobs); snapshot.Jobs.Problem != nil {
		return planResult{}, errors.New(snapshot.Jobs.Problem.Message)
	}
	prediction := plan.Predict(pool, snapshot, s.session.now())
	if prediction.Problem != nil {
		return planResult{}, errors.New(prediction.Problem.Message)
	}
	defaults := defaultReasons{} // a new decision has them all
	if prediction.NewRevision == nil {
		defaults = defaultReasons{"the newest revision, which is being carried out, has it there", "it is no longer in the list"}
	}
	return s.newPlanResult(pool, prediction, jobs, defaults), nil
}

// planRollback returns what the operator would do if a kept revision were pinned: its jobs, where they were, as far as those workers exist.
func (s poolState) planRollback(revision plan.StoredRevision) (planResult, error) {
	pool, snapshot := s.pool.DeepCopy(), s.snapshot
	pool.Spec.RollbackTo = revision.Number
	snapshot.Jobs = plan.NewJobs(revision.Data.Jobs()) // an unreadable list is a reason to go back
	prediction := plan.Predict(pool, snapshot, s.session.now())
	if prediction.Problem != nil {
		return planResult{}, errors.New(prediction.Problem.Message)
	}
	pool.Spec.Strategy = v1alpha1.PoolSticky
	result := s.newPlanResult(pool, prediction, revision.Data.Jobs(), defaultReasons{
		fmt.Sprintf("revision %d has it there", revision.Number), fmt.Sprintf("revision %d does not have it", revision.Number),
	})
	result.Revision = revision.Number
	return result, nil
}

func (s poolState) newPlanResult(pool *v1alpha1.WorkerPool, p plan.Prediction, jobs []assign.Job, defaults defaultReasons) planResult {
	result := planResult{
		Namespace: pool.Namespace, Pool: pool.Name, Strategy: string(cmp.Or(pool.Spec.Strategy, v1alpha1.PoolSticky)),
		Handoff: string(cmp.Or(pool.Spec.Handoff, v1alpha1.HandoffExclusive)),
		Jobs:    len(jobs), SizeBefore: len(s.snapshot.Published.Entries), SizeAfter: p.ExpectedWorkers, jobs: jobs,
	}
	if pool.Spec.Mode == v1alpha1.PoolPaused {
		result.Notes = append(result.Notes, "the pool is paused: nothing moves before spec.mode is Running")
	}
	return result.withDecision(p.Decision, p.Before, p.Records, defaults)
}
