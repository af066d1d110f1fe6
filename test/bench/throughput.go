package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/test/bench/report"
)

const (
	batch      = 5_000 // objects of each measurement
	agentCount = 100   // agents with one slot each
	creators   = 8     // clients that create objects at the same time
)

// A throughputResult is how fast objects were finished, and what each cost the API server and etcd. It is zero if they were not finished in
// time.
type throughputResult struct {
	perSecond    float64
	milliseconds float64 // of processor time
}

// throughput measures our tasks and two peers in the same run: raw writes of the same objects, which no controller that
// stores them can beat, and Jobs. The peers run without an operator, so that they have the whole machine.
func (b *bench) throughput(ctx context.Context) error {
	if err := b.cluster.swarm(ctx, "fleet", agentCount, 1); err != nil {
		return err
	}
	if err := b.cluster.awaitSwarmsReady(ctx); err != nil {
		return err
	}
	ours, err := b.cluster.measureRate(ctx, batch, func(ctx context.Context) error { return b.finish(ctx, "fast", "fleet", batch) })
	if err != nil {
		return fmt.Errorf("run %d tasks: %w", batch, err)
	}
	b.ceiling = ours.perSecond
	status, err := b.cluster.statusOf(ctx, fmt.Sprintf("fast-%05d", 0))
	if err != nil {
		return err
	}
	linked, err := b.operator.linked(ctx)
	if err != nil {
		return err
	}
	b.operator.stop()
	raw, err := b.cluster.measureRate(ctx, batch, func(ctx context.Context) error { return b.cluster.rawWrites(ctx, status) })
	if err != nil {
		return fmt.Errorf("write %d objects: %w", batch, err)
	}
	jobs, err := b.cluster.measureRate(ctx, batch, b.cluster.jobs)
	if err != nil {
		return fmt.Errorf("run %d Jobs: %w", batch, err)
	}
	b.reportThroughput(ours, raw, jobs)
	if err := b.cluster.clear(ctx, &v1alpha1.TaskList{}, &v1alpha1.Task{}, &batchv1.Job{}); err != nil {
		return err
	}
	if err := b.cluster.awaitJobPodsDeleted(ctx); err != nil {
		return err
	}
	if b.operator, err = b.cluster.startOperator(ctx); err != nil {
		return err
	}
	return b.operator.awaitLinked(ctx, linked)
}

func (b *bench) reportThroughput(ours, raw, jobs throughputResult) {
	prefix := fmt.Sprintf("%d short tasks, %d agents: ", batch, agentCount)
	for _, line := range []report.Line{
		{Measure: prefix + "throughput beside raw writes", Ours: ours.perSecond, Target: 0.85 * raw.perSecond, AtLeast: true, Unit: "1/s",
			Peer: rawWrites(raw.perSecond)},
		{Measure: prefix + "throughput beside Jobs", Ours: ours.perSecond, Target: 3 * jobs.perSecond, AtLeast: true, Unit: "1/s",
			Peer: batchJobs(jobs.perSecond)},
		{Measure: prefix + "API server and etcd, beside raw writes", Ours: ours.milliseconds, Target: 1.1 * raw.milliseconds, Unit: "ms CPU",
			Peer: rawWrites(raw.milliseconds)},
		{Measure: prefix + "API server and etcd, beside Jobs", Ours: ours.milliseconds, Target: jobs.milliseconds / 3, Unit: "ms CPU",
			Peer: batchJobs(jobs.milliseconds)},
	} {
		line.NotReached = line.Ours == 0 || line.Peer.Value == 0
		b.report.Add(line)
	}
}

func rawWrites(value float64) *report.Peer { return &report.Peer{Name: "raw writes", Value: value} }
func batchJobs(value float64) *report.Peer { return &report.Peer{Name: "batch/v1 Jobs", Value: value} }

// measureRate measures how long something takes for so many objects.
func (c *cluster) measureRate(ctx context.Context, count int, run func(context.Context) error) (throughputResult, error) {
	before, err := c.serverTime(ctx)
	if err != nil {
		return throughputResult{}, err
	}
	began := time.Now()
	if err := run(ctx); err != nil {
		return throughputResult{}, ignoreDeadline(err)
	}
	took := time.Since(began)
	after, err := c.serverTime(ctx)
	return throughputResult{float64(count) / took.Seconds(), (after - before).Seconds() * 1000 / float64(count)}, err
}

// finish creates tasks as fast as possible and waits until all are finished.
func (b *bench) finish(ctx context.Context, name, swarm string, count int) error {
	ctx, cancel := context.WithTimeout(ctx, rowLimit)
	defer cancel()
	finished, err := b.cluster.watchCompleted(ctx)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- b.cluster.submit(ctx, name, swarm, count) }()
	return awaitAll(ctx, finished, failed, name, count)
}

// awaitAll waits until so many different objects of a name are finished, or creating them has failed.
func awaitAll(ctx context.Context, finished <-chan string, failed <-chan error, name string, count int) error {
	distinct := map[string]bool{}
	for len(distinct) < count {
		select {
		case one := <-finished:
			if len(one) > len(name) && one[:len(name)+1] == name+"-" {
				distinct[one] = true
			}
		case err := <-failed:
			if err != nil {
				return err
			}
			failed = nil
		case <-ctx.Done():
			return fmt.Errorf("%d of %d were done: %w", len(distinct), count, ctx.Err())
		}
	}
	return nil
}

// submit creates tasks of zero duration as fast as possible.
func (c *cluster) submit(ctx context.Context, name, swarm string, count int) error {
	return forEach(ctx, count, func(ctx context.Context, n int) error { return c.task(ctx, fmt.Sprintf("%s-%05d", name, n), swarm, 0) })
}

// statusOf returns the status of a finished task as a patch.
func (c *cluster) statusOf(ctx context.Context, name string) ([]byte, error) {
	task := &v1alpha1.Task{}
	if err := c.api.Get(ctx, client.ObjectKey{Namespace: space, Name: name}, task); err != nil {
		return nil, fmt.Errorf("read a finished task: %w", err)
	}
	return json.Marshal(map[string]any{"status": task.Status})
}

// rawWrites creates each object and patches its status once, which is what a short task costs at least.
func (c *cluster) rawWrites(ctx context.Context, status []byte) error {
	return forEach(ctx, batch, func(ctx context.Context, n int) error {
		name := fmt.Sprintf("raw-%05d", n)
		if err := c.task(ctx, name, "none", 0); err != nil {
			return err
		}
		task := &v1alpha1.Task{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}}
		return c.api.Status().Patch(ctx, task, client.RawPatch(types.MergePatchType, status))
	})
}

// jobs creates Jobs whose simulated pods end at once, and waits until all are complete.
func (c *cluster) jobs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rowLimit)
	defer cancel()
	watching, err := c.watch(ctx, &batchv1.JobList{})
	if err != nil {
		return err
	}
	defer watching.Stop()
	finished, failed := make(chan string, 1024), make(chan error, 1)
	go func() {
		for event := range watching.ResultChan() {
			if job, isJob := event.Object.(*batchv1.Job); isJob && job.Status.CompletionTime != nil {
				finished <- job.Name
			}
		}
	}()
	go func() { failed <- forEach(ctx, batch, c.job) }()
	return awaitAll(ctx, finished, failed, "job", batch)
}

func (c *cluster) job(ctx context.Context, n int) error {
	return c.api.Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: fmt.Sprintf("job-%05d", n)},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "work", Image: "localhost/simulated:1"}},
		}}},
	})
}

// forEach calls a function for every number below count, from several goroutines, until one call fails.
func forEach(ctx context.Context, count int, call func(ctx context.Context, n int) error) error {
	calls, callCtx := errgroup.WithContext(ctx)
	calls.SetLimit(creators)
	for n := 0; n < count && callCtx.Err() == nil; n++ {
		calls.Go(func() error { return call(callCtx, n) })
	}
	if err := calls.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}
