package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/swarm-io/swarm-operator/test/bench/report"
)

const (
	sampled       = 20 // tasks of each length whose writes are counted
	perSecond     = 20 // of them are created
	pacedDuration = 20 * time.Second
)

// measureIdleMemory measures the memory of an idle operator.
func (b *bench) measureIdleMemory(ctx context.Context) error {
	if err := b.operator.awaitLeading(ctx); err != nil {
		return err
	}
	memory, err := b.operator.memory()
	b.report.Time("RSS of the operator, nothing to do", memory, 60, "MB")
	return err
}

// writes counts what tasks cost.
func (b *bench) writes(ctx context.Context) error {
	if err := b.cluster.swarm(ctx, "bench", 5, 8); err != nil {
		return err
	}
	if err := b.cluster.awaitSwarmsReady(ctx); err != nil {
		return err
	}
	for _, kindOfTasks := range []struct {
		name   string
		length time.Duration
		target float64
	}{{"short", 100 * time.Millisecond, 1}, {"long", 3 * time.Second, 2}} {
		since := time.Now()
		if _, err := b.run(ctx, kindOfTasks.name, sampled, kindOfTasks.length, time.Second/perSecond); err != nil {
			return err
		}
		cost, err := b.writesPerTask(since)
		if err != nil {
			return err
		}
		b.report.Count(fmt.Sprintf("operator writes per task of %s", kindOfTasks.length), cost, kindOfTasks.target, "writes")
	}
	return nil
}

// writesPerTask is the mean number of writes to a task.
func (b *bench) writesPerTask(since time.Time) (float64, error) {
	requests, err := b.cluster.writes(since)
	if err != nil {
		return 0, err
	}
	writes := 0
	for _, request := range requests {
		if request.Object.Resource == "tasks" || request.Object.Resource == "events" {
			writes++
		}
	}
	return float64(writes) / sampled, nil
}

// run creates tasks at a pace and returns the times from creation to start, as seen by the agent, and to completion, as seen by a watch.
func (b *bench) run(ctx context.Context, name string, count int, length, pace time.Duration) (latencies, error) {
	watching, stop := context.WithTimeout(ctx, time.Duration(count)*pace+length+time.Minute)
	defer stop()
	finished, err := b.cluster.watchCompleted(watching)
	if err != nil {
		return latencies{}, err
	}
	created := make([]time.Time, count)
	errs := b.createAtPace(ctx, name, created, length, pace)
	var took latencies
	completed := map[string]bool{}
	for len(took.toCompletion) < count {
		select {
		case task := <-finished:
			var n int
			if _, err := fmt.Sscanf(task, name+"-%05d", &n); err != nil || completed[task] {
				continue
			}
			completed[task] = true
			took.toCompletion = append(took.toCompletion, time.Since(created[n]))
			if startedAt, known := startTimes.Load(task); known {
				took.toStart = append(took.toStart, startedAt.(time.Time).Sub(created[n]))
			}
		case err := <-errs:
			return latencies{}, err
		case <-watching.Done():
			return latencies{}, fmt.Errorf("only %d of %d tasks %q were done in time", len(took.toCompletion), count, name)
		}
	}
	slices.Sort(took.toCompletion)
	slices.Sort(took.toStart)
	return took, nil
}

// createAtPace creates tasks in the background, and notes when. The channel has the error that ends it early.
func (b *bench) createAtPace(ctx context.Context, name string, created []time.Time, length, pace time.Duration) <-chan error {
	errs, begin := make(chan error, 1), time.Now()
	go func() {
		for n := range created {
			time.Sleep(time.Until(begin.Add(time.Duration(n) * pace)))
			created[n] = time.Now()
			if err := b.cluster.task(ctx, fmt.Sprintf("%s-%05d", name, n), "bench", length); err != nil {
				errs <- err
				return
			}
		}
	}()
	return errs
}

// latencies are sorted times since the creation of tasks.
type latencies struct{ toStart, toCompletion []time.Duration }

// latency measures how long tasks of zero duration take on warm agents, at three rates. The last rate is half of the
// throughput that was measured before.
func (b *bench) latency(ctx context.Context) error {
	for _, rate := range []float64{perSecond, 50, b.ceiling / 2} {
		if err := b.latencyAt(ctx, rate); err != nil {
			return err
		}
	}
	return nil
}

// latencyAt measures one rate. Half of a throughput that was not reached is 0: nothing can be measured at it, and its rows show that.
func (b *bench) latencyAt(ctx context.Context, rate float64) error {
	if rate == 0 {
		b.reportLatency("half of the throughput", latencies{})
		return nil
	}
	count := int(pacedDuration.Seconds() * rate)
	took, err := b.run(ctx, fmt.Sprintf("paced%.0f", rate), count, 0, time.Duration(float64(time.Second)/rate))
	if err != nil {
		return err
	}
	b.reportLatency(fmt.Sprintf("%.0f tasks/s", rate), took)
	return nil
}

func (b *bench) reportLatency(rate string, took latencies) {
	for _, row := range []struct {
		way     string
		took    []time.Duration
		percent int
		target  float64
	}{
		{"start", took.toStart, 50, 10}, {"start", took.toStart, 99, 100}, {"Completed", took.toCompletion, 50, 50},
		{"Completed", took.toCompletion, 99, 250},
	} {
		line := report.Line{Measure: fmt.Sprintf("create to %s, %s, p%d", row.way, rate, row.percent), Target: row.target, Unit: "ms",
			NotReached: len(row.took) == 0}
		if !line.NotReached {
			line.Ours = milliseconds(percentile(row.took, row.percent))
		}
		b.report.Add(line)
	}
}

func percentile(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)-1)*percent/100]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// idle watches a hundred idle swarms.
func (b *bench) idle(ctx context.Context) error {
	for n := range 100 {
		if err := b.cluster.swarm(ctx, fmt.Sprintf("idle-%03d", n), 3, 1); err != nil {
			return err
		}
	}
	if err := b.cluster.awaitSwarmsReady(ctx); err != nil {
		return err
	}
	if err := b.awaitQuiet(ctx); err != nil {
		return err
	}
	start, before := time.Now(), b.operator.lines.Load()
	fmt.Printf("watching 100 idle swarms of 3 agents for %s\n", b.quiet)
	if err := pause(ctx, b.quiet); err != nil {
		return err
	}
	writes, err := b.cluster.writes(start)
	if err != nil {
		return err
	}
	kinds := map[string]int{}
	for _, request := range writes {
		kinds[request.Verb+" "+request.Object.Resource]++
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Printf("  written although idle: %d x %s\n", kinds[kind], kind)
	}
	b.report.Count(fmt.Sprintf("writes of the operator in %s, 100 idle swarms of 3 agents", b.quiet), float64(len(writes)), 0, "writes")
	b.report.Count(fmt.Sprintf("log lines of the operator in %s, 100 idle swarms of 3 agents", b.quiet),
		float64(b.operator.lines.Load()-before), 0, "lines")
	memory, err := b.operator.memory()
	if err != nil {
		return err
	}
	b.report.Time("RSS of the operator with them, their 300 agents linked", memory, 100, "MB")
	return nil
}

// watchIdle waits until nothing happens, and then for the time in which nothing should. It returns when that began.
func (b *bench) watchIdle(ctx context.Context, what string) (since time.Time, err error) {
	if err := b.awaitQuiet(ctx); err != nil {
		return time.Time{}, err
	}
	since = time.Now()
	fmt.Printf("watching %s for %s\n", what, b.quiet)
	return since, pause(ctx, b.quiet)
}

// awaitQuiet waits until the operator has written nothing for a while: numbers of tasks are written late.
func (b *bench) awaitQuiet(ctx context.Context) error {
	const silence = 15 * time.Second
	for {
		written, err := b.cluster.writes(time.Now().Add(-silence))
		if err != nil || len(written) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}
