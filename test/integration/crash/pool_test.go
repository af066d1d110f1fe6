package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/testkit/fakeworkers"
)

// pools is the life of a pool over a StatefulSet.
var pools = scenario{
	stages: []testStage{
		{"a pool of 2 workers", createPool, poolConverged(2)},
		{"scaled to 3 workers", change(`{"replicas":3}`), poolConverged(3)},
		{"other jobs", change(`{"jobs":` + jobList("bcdefghij") + `}`), poolConverged(3)},
		{restarting, change(`{"jobs":` + jobList("bcdefghi") + `,"refresh":{"policy":"Restart"}}`), poolRestarted(3)},
		{"scaled to 2 workers", change(`{"replicas":2,"refresh":{"policy":"Auto"}}`), poolConverged(2)},
		{"rolled back", change(`{"rollbackTo":1}`), poolConverged(2)},
		{"left to itself, with a shorter history", change(`{"rollbackTo":null,"revisionHistoryLimit":1}`), poolConverged(2)},
		{"deleted", deletePool, workersGone},
	},
	concurrency: 6,
	moves:       map[string]bool{restarting: true},
	startAgents: func(context.Context, *run) error { return nil }, // the set of workers exists already
	verify:      verifyWorkers,
}

// restarting is the stage in which a worker is evicted. One job less changes the list of one worker only, because each eviction takes every
// run some seconds.
const restarting = "a job less, loaded by a restart"

// poolName is what pool and workload are called.
const poolName = "line"

// jobList is a list of jobs, one for each letter.
func jobList(letters string) string {
	var jobs []string
	for _, letter := range letters {
		jobs = append(jobs, fmt.Sprintf(`{"name":"%c"}`, letter))
	}
	return "[" + strings.Join(jobs, ",") + "]"
}

func createPool(ctx context.Context, r *run) error {
	labels := map[string]string{"app": poolName}
	workload := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: poolName},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(2)), PodManagementPolicy: appsv1.ParallelPodManagement, ServiceName: poolName,
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: fakeworkers.Template(labels, poolName+"-config"),
		},
	}
	pool := &v1alpha1.WorkerPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: poolName},
		Spec: v1alpha1.WorkerPoolSpec{
			Workers: v1alpha1.WorkloadReference{Kind: v1alpha1.WorkloadStatefulSet, Name: poolName}, Replicas: new(int32(2)),
			Refresh: v1alpha1.PoolRefresh{
				DeadlineSeconds: 600, Acknowledge: &v1alpha1.PoolAcknowledge{HTTPGet: v1alpha1.AcknowledgeHTTPGet{Port: fakeworkers.Port}},
			},
		},
	}
	for _, letter := range "abcdefgh" {
		pool.Spec.Jobs = append(pool.Spec.Jobs, v1alpha1.Job{Name: string(letter)})
	}
	return errors.Join(api.Create(ctx, workload), api.Create(ctx, pool))
}

func change(spec string) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":`+spec+`}`))
		return api.Patch(ctx, &v1alpha1.WorkerPool{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: poolName}}, patch)
	}
}

// poolConverged is done when the pool reports it for its present spec, with that many workers, and they run what is published.
func poolConverged(size int32) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		pool, config := &v1alpha1.WorkerPool{}, &corev1.ConfigMap{}
		if err := errors.Join(
			api.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: poolName}, pool),
			api.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: poolName + "-config"}, config),
		); err != nil {
			return err
		}
		status, running := pool.Status, workers.Journal(r.namespace).Running()
		switch lists := jobsByWorker(config); {
		case status.ObservedGeneration != pool.Generation, status.Size != size, status.ExpectedSize != size,
			status.ConvergedRevision != status.Revision,
			!meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionConverged):
			return fmt.Errorf("the pool is at %s", text(status))
		case fmt.Sprint(lists) != fmt.Sprint(running):
			return fmt.Errorf("%v runs, and %v is published", running, lists)
		}
		return nil
	}
}

// poolRestarted is done when the pool has converged and a worker was evicted for that in this stage.
func poolRestarted(size int32) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		if made := r.evictions(); made[r.proxy.stage] == 0 {
			return fmt.Errorf("evictions so far: %v", made)
		}
		return poolConverged(size)(ctx, r)
	}
}

// jobsByWorker returns the lists of a config by worker, without versions; workers without jobs are not in it.
func jobsByWorker(config *corev1.ConfigMap) map[string][]string {
	file, err := codec.ParseFile(config.Data["config.yml"])
	if err != nil {
		return map[string][]string{"": {err.Error()}}
	}
	lists := map[string][]string{}
	for _, entry := range file.Workers {
		if len(entry.Jobs) > 0 {
			lists[entry.Worker] = slices.Sorted(slices.Values(entry.Jobs))
		}
	}
	return lists
}

// poolState returns the parts of a pool that have to be the same after a kill. It leaves out versions and revisions, of which a kill may
// cause more, and the progress of each worker, which is reported with a delay: what is published covers it.
func poolState(pool *v1alpha1.WorkerPool) []any {
	status := pool.Status
	return []any{
		"current", status.ObservedGeneration == pool.Generation, "phase", status.Phase, "size", status.Size, "expected", status.ExpectedSize,
		"jobs", status.Jobs, "unassigned", status.Unassigned, "conditions", conditions(status.Conditions),
	}
}

func deletePool(ctx context.Context, r *run) error {
	of := metav1.ObjectMeta{Namespace: r.namespace, Name: poolName}
	return errors.Join(api.Delete(ctx, &v1alpha1.WorkerPool{ObjectMeta: of}), api.Delete(ctx, &appsv1.StatefulSet{ObjectMeta: of}))
}

// workersGone is done when all workers have ended, and their pods are gone.
func workersGone(ctx context.Context, r *run) error {
	pods := &corev1.PodList{}
	if err := api.List(ctx, pods, client.InNamespace(r.namespace)); err != nil {
		return err
	}
	if running := workers.Journal(r.namespace).Running(); len(pods.Items)+len(running) > 0 {
		return fmt.Errorf("%d pods are left, and %v runs", len(pods.Items), running)
	}
	return nil
}

// verifyWorkers returns what was wrong with what workers did.
func verifyWorkers(r *run) (entries []fmt.Stringer, problem error) {
	journal := workers.Journal(r.namespace)
	for _, entry := range journal {
		entries = append(entries, entry)
	}
	return entries, journal.Verify()
}
