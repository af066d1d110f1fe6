package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/audit"
)

// perSource is how many jobs fit well into one ConfigMap.
const perSource = 25_000

// pools measures worker pools: the largest one and the many small ones, each with a fresh operator. Their workers are
// simulated pods that cannot be called: a list counts as loaded a second after it was published, and that second is not
// counted.
func (b *bench) pools(ctx context.Context) error {
	for _, measure := range []func(context.Context) error{b.restart, b.hugePool, b.restart, b.idlePools, b.scaleOut} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// restart clears the cluster, which takes the operator for swarms alone, and starts another operator.
func (b *bench) restart(ctx context.Context) error {
	if err := b.cluster.clear(ctx, &v1alpha1.SwarmList{}, &v1alpha1.Swarm{}); err != nil {
		return err
	}
	b.operator.stop()
	if err := b.cluster.clear(ctx, &corev1.PodList{}, &v1alpha1.WorkerPool{}, &appsv1.StatefulSet{}, &appsv1.Deployment{}, &corev1.ConfigMap{}); err != nil {
		return err
	}
	var err error
	if b.operator, err = b.cluster.startOperator(ctx); err != nil {
		return err
	}
	return b.operator.awaitLeading(ctx)
}

// idlePools watches a thousand idle pools.
func (b *bench) idlePools(ctx context.Context) error {
	const count = 1000
	for n := range count {
		if err := b.cluster.pool(ctx, poolShape{name: fmt.Sprintf("pool-%04d", n), jobs: 27, workers: 2}); err != nil {
			return err
		}
	}
	fmt.Printf("waiting for %d pools of 2 workers\n", count)
	if err := b.cluster.awaitConverged(ctx, count); err != nil {
		return err
	}
	since, err := b.watchIdle(ctx, fmt.Sprintf("%d idle pools of 27 jobs", count))
	if err != nil {
		return err
	}
	written, err := b.cluster.writes(since)
	if err != nil {
		return err
	}
	b.report.Count(fmt.Sprintf("writes of the operator in %s, %d idle pools of 27 jobs", b.quiet, count), float64(len(written)), 0, "writes")
	memory, err := b.operator.memory()
	b.report.Time("RSS of the operator with them", memory, 100, "MB")
	return err
}

// scaleOut measures what one more worker costs a pool of 100, and how long it takes until the last list is published.
func (b *bench) scaleOut(ctx context.Context) error {
	shape := poolShape{name: "big", jobs: 10_000, workers: 100}
	if err := b.cluster.pool(ctx, shape); err != nil {
		return err
	}
	if err := b.cluster.awaitPoolSize(ctx, shape.name, 100); err != nil {
		return err
	}
	if err := b.awaitQuiet(ctx); err != nil {
		return err
	}
	since := time.Now()
	if err := b.cluster.scale(ctx, shape.name, 101); err != nil {
		return err
	}
	if err := b.cluster.awaitPoolSize(ctx, shape.name, 101); err != nil {
		return err
	}
	written, err := b.cluster.writes(since)
	if err != nil {
		return err
	}
	cost := costOf(written)
	b.report.Count("writes for one worker more, 10,000 jobs on 100 workers, until the last list is published", float64(cost.writes),
		float64(cost.nudges+3), "writes")
	b.report.Time("the same, from kubectl scale, without waiting for acknowledgements", (cost.last.Sub(since) - cost.waitedForNudge).Seconds(),
		3, "s")
	return nil
}

// cost is what a hand-over cost.
type cost struct {
	writes, nudges int
	last           time.Time
	waitedForNudge time.Duration
}

// costOf goes through the writes of a hand-over: the time between the last nudge before the second config and that config was
// spent waiting.
func costOf(written []audit.Request) (sum cost) {
	configs := 0
	for _, request := range written {
		switch request.Object.Resource {
		case "workerpools", "events":
			continue // which report it
		case "configmaps":
			if configs++; configs == 2 {
				sum.waitedForNudge = request.Received.Sub(sum.last)
			}
		case "pods":
			sum.nudges++
		}
		sum.writes++
		sum.last = request.Received
	}
	return sum
}

// hugePool distributes a hundred thousand jobs.
func (b *bench) hugePool(ctx context.Context) error {
	start := time.Now()
	fmt.Println("waiting for a pool of 1,000 workers")
	shape := poolShape{name: "huge", jobs: 100_000, workers: 1000, layout: v1alpha1.LayoutPerWorker}
	if err := b.cluster.pool(ctx, shape); err != nil {
		return err
	}
	if err := b.cluster.awaitPoolSize(ctx, shape.name, shape.workers); err != nil {
		return err
	}
	fmt.Printf("100,000 jobs reached 1,000 workers after %.0f s, pods included\n", time.Since(start).Seconds())
	memory, err := b.operator.memory()
	b.report.Time("RSS of the operator with 100,000 jobs on 1,000 workers, layout PerWorker", memory, 200, "MB")
	return err
}

// poolShape describes a pool and its workload.
type poolShape struct {
	name          string
	jobs, workers int
	layout        v1alpha1.ConfigLayout
}

// pool creates a StatefulSet of simulated pods, its jobs and its pool.
func (c *cluster) pool(ctx context.Context, shape poolShape) error {
	object := metav1.ObjectMeta{Namespace: space, Name: shape.name}
	labels := map[string]string{"app": shape.name}
	pool := &v1alpha1.WorkerPool{ObjectMeta: object, Spec: v1alpha1.WorkerPoolSpec{
		Workers: v1alpha1.WorkloadReference{Name: shape.name}, Config: v1alpha1.PoolConfig{Layout: shape.layout},
		Refresh: v1alpha1.PoolRefresh{Policy: v1alpha1.RefreshHotReload, DeadlineSeconds: 1},
	}}
	objects := []client.Object{&appsv1.StatefulSet{ObjectMeta: object, Spec: appsv1.StatefulSetSpec{
		ServiceName: shape.name, Replicas: new(int32(shape.workers)), PodManagementPolicy: appsv1.ParallelPodManagement,
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "worker", Image: "localhost/simulated:1"}}},
		},
	}}}
	for begin := 0; begin < shape.jobs; begin += perSource {
		source := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: fmt.Sprintf("%s-jobs-%d", shape.name, begin)}}
		source.Data = map[string]string{"jobs": jobList(begin, min(begin+perSource, shape.jobs))}
		pool.Spec.JobsFrom = append(pool.Spec.JobsFrom, v1alpha1.JobSource{ConfigMapKeyRef: v1alpha1.ConfigMapKey{Name: source.Name,
			Key: "jobs"}})
		objects = append(objects, source)
	}
	for _, made := range append(objects, pool) {
		if err := c.api.Create(ctx, made); err != nil {
			return fmt.Errorf("create %T %q: %w", made, made.GetName(), err)
		}
	}
	return nil
}

func jobList(from, to int) string {
	var list strings.Builder
	for n := from; n < to; n++ {
		fmt.Fprintf(&list, "stream:camera-%06d\n", n)
	}
	return list.String()
}

func (c *cluster) scale(ctx context.Context, name string, workers int32) error {
	workload := &appsv1.StatefulSet{}
	if err := c.api.Get(ctx, client.ObjectKey{Namespace: space, Name: name}, workload); err != nil {
		return fmt.Errorf("scale: %w", err)
	}
	before := workload.DeepCopy()
	workload.Spec.Replicas = &workers
	return c.api.Patch(ctx, workload, client.MergeFrom(before))
}

// podTimeout is how long simulated pods may take on a busy machine.
const podTimeout = 15 * time.Minute

// awaitPoolSize waits until a pool has converged on so many workers.
func (c *cluster) awaitPoolSize(ctx context.Context, name string, workers int) error {
	return wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, podTimeout, true, func(ctx context.Context) (bool, error) {
		pool := &v1alpha1.WorkerPool{}
		err := c.api.Get(ctx, client.ObjectKey{Namespace: space, Name: name}, pool)
		return pool.Status.Size == int32(workers) && pool.Status.ConvergedRevision > 0 && isConverged(pool), err
	})
}

// awaitConverged waits until so many pools have converged.
func (c *cluster) awaitConverged(ctx context.Context, count int) error {
	return wait.PollUntilContextTimeout(ctx, time.Second, podTimeout, true, func(ctx context.Context) (bool, error) {
		pools := &v1alpha1.WorkerPoolList{}
		if err := c.api.List(ctx, pools, client.InNamespace(space)); err != nil {
			return false, err
		}
		convergedCount := 0
		for n := range pools.Items {
			if isConverged(&pools.Items[n]) && pools.Items[n].Status.Size == pools.Items[n].Status.ExpectedSize {
				convergedCount++
			}
		}
		return convergedCount == count, nil
	})
}

func isConverged(pool *v1alpha1.WorkerPool) bool {
	return meta.IsStatusConditionTrue(pool.Status.Conditions, v1alpha1.ConditionConverged)
}

// awaitJobPodsDeleted waits until the garbage collector has deleted the pods of Jobs: until then other pods start late.
func (c *cluster) awaitJobPodsDeleted(ctx context.Context) error {
	return wait.PollUntilContextTimeout(ctx, time.Second, podTimeout, true, func(ctx context.Context) (bool, error) {
		pods := &corev1.PodList{}
		err := c.api.List(ctx, pods, client.InNamespace(space), client.HasLabels{batchv1.JobNameLabel}, client.Limit(1))
		return len(pods.Items) == 0, err
	})
}

// clear removes all objects of some kinds, and waits until a list is empty.
func (c *cluster) clear(ctx context.Context, list client.ObjectList, kinds ...client.Object) error {
	for _, kind := range kinds {
		if err := c.api.DeleteAllOf(ctx, kind, client.InNamespace(space),
			client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			return fmt.Errorf("delete all %T: %w", kind, err)
		}
	}
	return wait.PollUntilContextTimeout(ctx, time.Second, podTimeout, true, func(ctx context.Context) (bool, error) {
		err := c.api.List(ctx, list, client.InNamespace(space))
		return meta.LenList(list) == 0, err
	})
}
