package plan

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// scalingPlanner returns a planner of a pool whose StatefulSet or Deployment has three pods.
func scalingPlanner(kind v1alpha1.WorkloadKind, replicas int32, records ...assign.Record) *planner {
	pool := &v1alpha1.WorkerPool{}
	pool.Spec.Replicas = &replicas
	return &planner{pool: pool, snapshot: Snapshot{Workload: Workload{Object: &appsv1.StatefulSet{}, Kind: kind, Replicas: 3}},
		records: records}
}

func recordOf(ordinal int, jobs ...string) assign.Record {
	return assign.Record{Ordinal: ordinal, Lists: []assign.ListVersion{{Version: 1, Jobs: jobs}}}
}

func TestPoolIsNotScaledBelowWorkersThatHoldJobs(t *testing.T) {
	// The job of the third worker was revoked, and it has not confirmed that.
	revoked := assign.Record{Ordinal: 2, PodUID: "u", Lists: []assign.ListVersion{{Version: 1, Jobs: []string{"c"}}, {Version: 2}}}
	for reason, c := range map[string]struct {
		draft *planner
		want  int32 // 0: not scaled
	}{
		"more at once":            {scalingPlanner(v1alpha1.WorkloadStatefulSet, 5, recordOf(0, "a")), 5},
		"as many as there are":    {scalingPlanner(v1alpha1.WorkloadStatefulSet, 3, recordOf(2, "c")), 0},
		"fewer, all of them free": {scalingPlanner(v1alpha1.WorkloadStatefulSet, 1, recordOf(0, "a"), recordOf(1), recordOf(2)), 1},
		"fewer, the last one holds": {scalingPlanner(v1alpha1.WorkloadStatefulSet, 1, recordOf(0, "a"), recordOf(1), recordOf(2, "c")),
			0},
		"fewer, the second one holds": {scalingPlanner(v1alpha1.WorkloadStatefulSet, 1, recordOf(0, "a"), recordOf(1, "b"), recordOf(2)),
			2},
		"fewer, the last one may hold": {scalingPlanner(v1alpha1.WorkloadStatefulSet, 1, recordOf(0, "a"), recordOf(1), revoked), 0},
		"a Deployment waits for all": {scalingPlanner(v1alpha1.WorkloadDeployment, 1, recordOf(0, "a"), recordOf(1, "b"), recordOf(2)),
			0},
		"a Deployment whose rest is free": {scalingPlanner(v1alpha1.WorkloadDeployment, 1, recordOf(0, "a"), recordOf(1), recordOf(2)), 1},
		"the number of workers is not given": {&planner{pool: &v1alpha1.WorkerPool{},
			snapshot: Snapshot{Workload: Workload{Replicas: 3}}}, 0},
	} {
		t.Run(reason, func(t *testing.T) {
			c.draft.planScale()
			if got := c.draft.ScaleTo; (got == nil) != (c.want == 0) || got != nil && *got != c.want {
				t.Errorf("got %v, want %d", got, c.want)
			}
		})
	}
}

func TestPoolThatIsPausedOrPublishesIsNotScaledIn(t *testing.T) {
	for reason, change := range map[string]func(*planner){
		"paused":       func(d *planner) { d.Paused = true },
		"publishing":   func(d *planner) { d.ConfigMaps = []*ConfigMap{{}} },
		"new revision": func(d *planner) { d.NewRevision = &StoredRevision{} },
	} {
		d := scalingPlanner(v1alpha1.WorkloadStatefulSet, 1, recordOf(0, "a"))
		change(d)
		if d.planScale(); d.ScaleTo != nil {
			t.Errorf("%s: scaled to %d", reason, *d.ScaleTo)
		}
	}
}

func TestRevisionsThatMayBeNeededAreKept(t *testing.T) {
	for reason, c := range map[string]struct {
		limit                 int32
		converged, rollbackTo int64
		want                  []int64
	}{
		"those above the limit":                 {2, 6, 0, []int64{1, 2, 3}},
		"none that a worker may still hold":     {2, 2, 0, []int64{1}},
		"none before anything has converged":    {0, 0, 0, nil},
		"not the one that is to be rolled back": {2, 6, 2, []int64{1, 3}},
		"all fit":                               {9, 6, 0, nil},
	} {
		t.Run(reason, func(t *testing.T) {
			pool := &v1alpha1.WorkerPool{}
			pool.Spec.RevisionHistoryLimit, pool.Spec.RollbackTo, pool.Status.ConvergedRevision = c.limit, c.rollbackTo, c.converged
			d := &planner{pool: pool}
			for number := range int64(6) {
				d.snapshot.History = append(d.snapshot.History, StoredRevision{Number: number + 1})
			}
			d.planCleanup()
			var got []int64
			for _, revision := range d.ObsoleteRevisions {
				got = append(got, revision.Number)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("discards %v, want %v", got, c.want)
			}
		})
	}
}
