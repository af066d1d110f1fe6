// Command bench measures the operator as a program on a real API server and prints each measure next to its target. Pods are
// simulated; their agents are real and run in this process, so a task takes its whole path: API server, operator, link, agent
// and back. Counts that miss their target fail it, and so do the bounds of what one tenant may cost; times never do, because
// machines differ. Run it with `make bench`.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/swarm-io/swarm-operator/agent"
	"github.com/swarm-io/swarm-operator/internal/testkit/fakeagents"
	"github.com/swarm-io/swarm-operator/test/bench/report"
)

func main() {
	results := flag.String("results", "test/bench/results.json", "file for the results")
	quiet := flag.Duration("quiet", 2*time.Minute, "how long those that have nothing to do are watched")
	part := flag.String("part", strings.Join(parts, ","), "what to measure, separated by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *results, *quiet, strings.Split(*part, ","))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// parts are the measurements, in this order. The last one leaves more tasks behind than can be deleted in a reasonable time.
var parts = []string{"rest", "tasks", "idle", "pools", "spread", "limits", "queue"}

// partLimit is how long the measures of a part may take.
const partLimit = 20 * time.Minute

// measuredPackages are the packages that a part measures. Its numbers also depend on every package that these import, and are stale
// once one of them has changed.
var measuredPackages = map[string][]string{
	"rest":   {"kit"},
	"tasks":  swarms,
	"queue":  swarms,
	"idle":   swarms,
	"pools":  {"internal/controller/workerpool"},
	"spread": {"internal/controller/spread", "internal/spread/allocator", "internal/webhook/pool", "internal/webhook/spread"},
	"limits": slices.Concat(swarms, []string{"internal/limit", "internal/link", "internal/spread/allocator", "internal/webhook/spread"}),
}

var swarms = []string{"agent", "internal/controller/agent", "internal/controller/swarm", "internal/controller/task"}

// composition starts the parts of the operator, and so imports all of them. Every part depends on it, but not on everything
// that it imports.
const composition = "internal/operator"

// A bench holds what measurements need.
type bench struct {
	cluster  *cluster
	operator *operator
	report   *report.Report
	quiet    time.Duration
	ceiling  float64 // tasks per second, once measured
}

// startTimes are when agents began tasks, by name.
var startTimes sync.Map

// measures are the measurements of a part.
func (b *bench) measures(part string) ([]func(context.Context) error, error) {
	all := map[string][]func(context.Context) error{
		"rest": {b.measureIdleMemory}, "tasks": {b.writes, b.throughput, b.latency}, "queue": {b.queue}, "idle": {b.idle}, "pools": {b.pools},
		"spread": {b.spread},
		"limits": {b.limits},
	}
	found, known := all[part]
	if !known {
		return nil, fmt.Errorf("no part %q: name some of %s", part, strings.Join(parts, ", "))
	}
	return found, nil
}

func run(ctx context.Context, results string, quiet time.Duration, only []string) error {
	cluster, err := connect(ctx)
	if err != nil {
		return err
	}
	operator, err := cluster.startOperator(ctx)
	if err != nil {
		return err
	}
	agents, err := fakeagents.Start(ctx, cluster.config, fakeagents.Options{Runner: runAgent})
	if err != nil {
		return err
	}
	defer agents.Stop()
	b := &bench{cluster: cluster, operator: operator, quiet: quiet}
	defer func() { b.operator.stop() }()
	var missedErr []error
	for _, part := range only {
		err := b.runPart(ctx, part)
		if ctx.Err() != nil || b.report == nil {
			return err // interrupted, or not started: earlier numbers are kept
		}
		missedErr = append(missedErr, err, b.report.Close(results))
		if err != nil {
			break
		}
	}
	return errors.Join(missedErr...)
}

// runPart runs the measurements of a part.
func (b *bench) runPart(ctx context.Context, part string) error {
	b.report = nil
	measures, err := b.measures(part)
	if err != nil {
		return err
	}
	folders, err := report.Dependencies(ctx, measuredPackages[part]...)
	if err != nil {
		return err
	}
	if b.report, err = report.New(ctx, "operator, "+part, append(folders, composition)...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, partLimit)
	defer cancel()
	for _, measure := range measures {
		if err := measure(ctx); err != nil {
			return fmt.Errorf("part %s: %w", part, err)
		}
	}
	return nil
}

// work lasts as long as its payload says.
func work(ctx context.Context, task agent.Task, _ agent.Report) (any, error) {
	startTimes.Store(task.Name, time.Now())
	var payload struct {
		Milliseconds int `json:"milliseconds"`
	}
	if err := json.Unmarshal(task.Payload, &payload); err != nil {
		return nil, agent.BadInput(err)
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Duration(payload.Milliseconds) * time.Millisecond):
		return map[string]string{"agent": task.Agent}, nil
	}
}
