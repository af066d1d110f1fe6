package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/swarm-io/swarm-operator/test/bench/report"
)

// The size of the cluster whose workloads are spread: every tenth is a StatefulSet.
const (
	spreadNodes     = 500
	spreadWorkloads = 1000
	spreadReplicas  = 10
	spreadPods      = spreadWorkloads * spreadReplicas
)

// Metrics of the operator.
const (
	moves      = "swarm_spread_moves_total"
	judgements = "controller_runtime_reconcile_time_seconds" // how long controllers take for one reconcile
)

// spread measures how workloads are kept spread over spot and on-demand nodes, all of them in one namespace.
func (b *bench) spread(ctx context.Context) error {
	for _, measure := range []func(context.Context) error{b.measurePlacement, b.coldStart, b.measureQuiet, b.measureAdmission, b.nodeLoss} {
		if err := measure(ctx); err != nil {
			return fmt.Errorf("spread: %w", err)
		}
	}
	return nil
}

// measurePlacement fills the cluster while the operator places each pod.
func (b *bench) measurePlacement(ctx context.Context) error {
	if err := b.restart(ctx); err != nil {
		return err
	}
	b.operator.stop()
	if err := b.cluster.addNodes(ctx, spreadNodes); err != nil {
		return err
	}
	if err := b.cluster.registerWebhook(ctx); err != nil {
		return err
	}
	var err error
	if b.operator, err = b.cluster.startOperator(ctx, webhookSettings...); err != nil {
		return err
	}
	before, err := b.createFirstWorkload(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := b.populate(ctx); err != nil {
		return err
	}
	metrics, err := b.operator.read(ctx)
	if err != nil {
		return err
	}
	took, count := quantileBound(before.buckets(admissionTime), metrics.buckets(admissionTime), .99)
	fmt.Printf("%d pods of %d workloads stand as they should after %.0f s; the operator was asked %d times meanwhile, p99 up to %s\n",
		spreadPods, spreadWorkloads, time.Since(start).Seconds(), count, took)
	b.report.Count("pods that were made for the wrong class and moved, of 10,000", movedPods(metrics)-movedPods(before), 0, "pods")
	return b.reportMemory("of the operator that has seen 1,000 spread workloads grow, 10,000 pods, 500 nodes")
}

// reportMemory reports the working set, by which a container is judged, and the resident set.
func (b *bench) reportMemory(name string) error {
	workingSet, err := b.operator.group.workingSet()
	if err != nil {
		return err
	}
	resident, err := b.operator.memory()
	b.report.Add(report.Line{
		Measure: "[R11/working-set] working set " + name, Ours: workingSet, Target: 100, Unit: "MB",
		Peer: &report.Peer{Name: "resident set", Value: resident},
	})
	return err
}

// movedPods is how many pods were moved from one class to the other. Pods whose node was taken for lost, on a busy machine,
// stay in their class.
func movedPods(seen metricsSnapshot) float64 {
	return seen.sum(moves, `from="spot"`, `to="on-demand"`) + seen.sum(moves, `from="on-demand"`, `to="spot"`)
}

// createFirstWorkload creates the first workload, after which the API server begins to call the webhook. The pods of this workload may be
// created before that, and be moved.
func (b *bench) createFirstWorkload(ctx context.Context) (metricsSnapshot, error) {
	if err := b.cluster.workload(ctx, 0); err != nil {
		return nil, err
	}
	if err := b.awaitBalanced(ctx, 1); err != nil {
		return nil, err
	}
	return b.operator.read(ctx)
}

// populate creates the others.
func (b *bench) populate(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() {
		for n := 1; n < spreadWorkloads; n++ {
			if err := b.cluster.workload(ctx, n); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	if err := b.awaitBalanced(ctx, spreadWorkloads); err != nil {
		return err
	}
	return <-failed
}

// awaitBalanced waits until so many workloads are balanced, and all their pods exist. It polls the operator so as not to disturb the API
// server.
func (b *bench) awaitBalanced(ctx context.Context, workloads int) error {
	lastReport := time.Now()
	return wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, podTimeout, true, func(ctx context.Context) (bool, error) {
		seen, _ := b.operator.read(ctx) // empty while it is still starting
		done, pods := seen.sum("swarm_spread_workloads", `status="Balanced"`), seen.sum("swarm_spread_pods", `state="current"`)
		if time.Since(lastReport) > 15*time.Second {
			lastReport = time.Now()
			fmt.Printf("  %.0f of %d workloads balanced, %.0f pods run, load %s\n", done, workloads, pods, load())
		}
		return int(done) == workloads && int(pods) == workloads*spreadReplicas, nil
	})
}

// load is the load average of the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(text))[0]
}

// coldStart measures how long an operator without any state takes to reconcile all workloads.
func (b *bench) coldStart(ctx context.Context) error {
	if err := b.awaitQuiet(ctx); err != nil {
		return err
	}
	b.operator.stop()
	start := time.Now()
	var err error
	if b.operator, err = b.cluster.startOperator(ctx, webhookSettings...); err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		seen, err := b.operator.read(ctx)
		return err == nil && seen.sum("swarm_spread_workloads") == spreadWorkloads, nil
	})
	if err != nil {
		return fmt.Errorf("reconcile all workloads: %w", err)
	}
	b.report.Time("from the operator's start until it has judged 1,000 workloads", time.Since(start).Seconds(), 10, "s")
	worked, err := b.operator.cpuTime()
	if err != nil {
		return err
	}
	fmt.Printf("  it worked for %s; load of the machine %s\n", worked, load())
	return b.reportMemory("of the operator then")
}

// measureQuiet counts the requests of the operator while nothing happens. Watches that end are restarted, and the Lease is renewed.
func (b *bench) measureQuiet(ctx context.Context) error {
	since, err := b.watchIdle(ctx, fmt.Sprintf("%d spread workloads", spreadWorkloads))
	if err != nil {
		return err
	}
	asked, err := b.countRequests(since)
	if err != nil {
		return err
	}
	b.report.Count(fmt.Sprintf("reads and writes of the operator in %s, 1,000 spread workloads", b.quiet), float64(asked), 0, "calls")
	return b.reportMemory("of the operator after that")
}

// countRequests returns how many requests the operator has made since a moment, and shows them.
func (b *bench) countRequests(since time.Time) (int, error) {
	requests, err := b.cluster.requests(since)
	if err != nil {
		return 0, err
	}
	kinds, total := map[string]int{}, 0
	for _, request := range requests {
		if request.Verb != "watch" && request.Object.Resource != "leases" {
			kinds[request.Verb+" "+request.Object.Resource]++
			total++
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Printf("  asked for although nothing happens: %d x %s\n", kinds[kind], kind)
	}
	return total, nil
}

// nodeLoss removes a node and waits for the first of its pods to be replaced.
func (b *bench) nodeLoss(ctx context.Context) error {
	node, err := b.cluster.spotNode(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := b.cluster.api.Delete(ctx, node); err != nil {
		return fmt.Errorf("delete a node: %w", err)
	}
	var firstRequest time.Duration
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, false, func(context.Context) (bool, error) {
		written, err := b.cluster.writes(start)
		for _, request := range written {
			if took := request.Received.Sub(start); request.Object.Resource == "pods" && (firstRequest == 0 || took < firstRequest) {
				firstRequest = took
			}
		}
		return firstRequest > 0, err
	})
	if err != nil {
		return fmt.Errorf("wait for a pod to be replaced: %w", err)
	}
	b.report.Time("[R12/node-loss] from the loss of a spot node to the first replacement, 1,000 workloads", firstRequest.Seconds(), 2, "s")
	fmt.Printf("  load of the machine: %s\n", load())
	if err := b.awaitQuiet(ctx); err != nil {
		return err
	}
	return b.measureReconcileTime(ctx)
}

// measureReconcileTime reports how long reconciles of workloads have taken since the operator's start.
func (b *bench) measureReconcileTime(ctx context.Context) error {
	metrics, err := b.operator.read(ctx)
	if err != nil {
		return err
	}
	buckets := map[float64]float64{}
	for _, kind := range []string{"deployment", "statefulset"} {
		for limit, count := range metrics.buckets(judgements, `controller="spread-`+kind+`"`) {
			buckets[limit] += count
		}
	}
	took, count := quantileBound(nil, buckets, .99)
	b.report.Time(fmt.Sprintf("[R12/reconcile] %d looks at a spread workload, p99 (bound of its bucket)", count), milliseconds(took), 100,
		"ms")
	return nil
}
