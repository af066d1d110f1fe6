package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	sampled = 20 // tasks of each length whose writes are counted
	rate    = 20 // tasks a second
	paced   = 20 * time.Second
)

// rest is what an operator weighs that has nothing to do.
func (b *bench) rest(ctx context.Context) error {
	if err := b.operator.ready(ctx); err != nil {
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
	if err := b.cluster.ready(ctx); err != nil {
		return err
	}
	for _, sort := range []struct {
		name   string
		length time.Duration
		target float64
	}{{"short", 100 * time.Millisecond, 1}, {"long", 3 * time.Second, 2}} {
		since := time.Now()
		if _, err := b.run(ctx, sort.name, sampled, sort.length, time.Second/rate); err != nil {
			return err
		}
		cost, err := b.costs(since)
		if err != nil {
			return err
		}
		b.report.Count(fmt.Sprintf("operator writes per task of %s", sort.length), cost, sort.target, "writes")
	}
	return nil
}

// costs is the mean number of writes to a task.
func (b *bench) costs(since time.Time) (float64, error) {
	all, err := b.cluster.writes(since)
	if err != nil {
		return 0, err
	}
	written := 0
	for _, request := range all {
		if request.Object.Resource == "tasks" || request.Object.Resource == "events" {
			written++
		}
	}
	return float64(written) / sampled, nil
}

// run creates tasks at a pace and gives the time from each creation to its completion, as a watch sees it.
func (b *bench) run(ctx context.Context, name string, count int, length, pace time.Duration) ([]time.Duration, error) {
	watching, stop := context.WithTimeout(ctx, time.Duration(count)*pace+length+time.Minute)
	defer stop()
	finished, err := b.cluster.finished(watching)
	if err != nil {
		return nil, err
	}
	created, failed := make([]time.Time, count), make(chan error, 1)
	begin := time.Now()
	go func() {
		for n := range count {
			time.Sleep(time.Until(begin.Add(time.Duration(n) * pace)))
			created[n] = time.Now()
			if err := b.cluster.task(ctx, fmt.Sprintf("%s-%05d", name, n), "bench", length); err != nil {
				failed <- err
				return
			}
		}
	}()
	var took []time.Duration
	seen := map[string]bool{}
	for len(took) < count {
		select {
		case task := <-finished:
			var n int
			if _, err := fmt.Sscanf(task, name+"-%05d", &n); err != nil || seen[task] {
				continue
			}
			seen[task] = true
			took = append(took, time.Since(created[n]))
		case err := <-failed:
			return nil, err
		case <-watching.Done():
			return nil, fmt.Errorf("only %d of %d tasks %q were done in time", len(took), count, name)
		}
	}
	slices.Sort(took)
	return took, nil
}

// latency is the whole way of a task that does nothing, on warm agents.
func (b *bench) latency(ctx context.Context) error {
	took, err := b.run(ctx, "paced", int(paced.Seconds())*rate, 0, time.Second/rate)
	if err != nil {
		return err
	}
	b.report.Time(fmt.Sprintf("create to Completed, %d tasks/s, p50", rate), milliseconds(percentile(took, 50)), 50, "ms")
	b.report.Time(fmt.Sprintf("create to Completed, %d tasks/s, p99", rate), milliseconds(percentile(took, 99)), 250, "ms")
	return nil
}

func percentile(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)-1)*percent/100]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// idle watches a hundred swarms that have nothing to do.
func (b *bench) idle(ctx context.Context) error {
	for n := range 100 {
		if err := b.cluster.swarm(ctx, fmt.Sprintf("idle-%03d", n), 3, 1); err != nil {
			return err
		}
	}
	if err := b.cluster.ready(ctx); err != nil {
		return err
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	since, before := time.Now(), b.operator.lines.Load()
	fmt.Printf("watching 100 idle swarms of 3 agents for %s\n", b.quiet)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(b.quiet):
	}
	written, err := b.cluster.writes(since)
	if err != nil {
		return err
	}
	kinds := map[string]int{}
	for _, request := range written {
		kinds[request.Verb+" "+request.Object.Resource]++
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Printf("  written although idle: %d x %s\n", kinds[kind], kind)
	}
	b.report.Count(fmt.Sprintf("writes of the operator in %s, 100 idle swarms of 3 agents", b.quiet), float64(len(written)), 0, "writes")
	b.report.Count(fmt.Sprintf("log lines of the operator in %s, 100 idle swarms of 3 agents", b.quiet), float64(b.operator.lines.Load()-before), 0, "lines")
	memory, err := b.operator.memory()
	if err != nil {
		return err
	}
	b.report.Time("RSS of the operator with them, their 300 agents linked", memory, 100, "MB")
	return nil
}

// settle waits until the operator has written nothing for a while: numbers of tasks are written late.
func (b *bench) settle(ctx context.Context) error {
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
