package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/test/bench/report"
)

const (
	rowLimit    = 5 * time.Minute // after which a row counts as not reached
	activeTasks = 2_000           // tasks whose throughput is measured beside the waiting ones
)

// depths are how many tasks wait in a paused swarm while another one works. They are also compared with an empty queue.
var depths = []int{10_000, 100_000}

// queue measures what waiting tasks cost: the throughput of another swarm beside them, and how soon the first of them
// finishes once their swarm is unpaused.
func (b *bench) queue(ctx context.Context) error {
	for _, swarm := range []string{"fleet", "parked"} {
		if err := b.cluster.swarm(ctx, swarm, agentCount, 1); err != nil {
			return err
		}
	}
	if err := b.cluster.awaitSwarmsReady(ctx); err != nil {
		return err
	}
	baseline, err := b.throughputBeside(ctx, 0)
	if err != nil {
		return err
	}
	b.report.Add(besideLine(0, baseline, baseline))
	for _, depth := range depths {
		if err := b.cluster.clear(ctx, &v1alpha1.TaskList{}, &v1alpha1.Task{}); err != nil {
			return err
		}
		if err := b.measureQueueAt(ctx, depth, baseline); err != nil {
			return err
		}
	}
	return nil
}

// measureQueueAt adds the rows of a depth. If so many tasks could not be created in time, the rows are not reached.
func (b *bench) measureQueueAt(ctx context.Context, depth int, baseline float64) error {
	switch err := b.createWaitingTasks(ctx, depth); {
	case errors.Is(err, context.DeadlineExceeded):
		b.report.Add(besideLine(depth, 0, baseline))
		b.report.Add(unpauseLine(depth, rowLimit, err))
		return nil
	case err != nil:
		return err
	}
	perSecond, err := b.throughputBeside(ctx, depth)
	if err != nil {
		return err
	}
	b.report.Add(besideLine(depth, perSecond, baseline))
	return b.unpause(ctx, depth)
}

// besideLine compares a throughput with that of a swarm without waiting tasks beside it. If either was not measured, the row
// is not reached.
func besideLine(depth int, perSecond, alone float64) report.Line {
	return report.Line{
		Measure: claim(depth, "[X05/throughput] ") + fmt.Sprintf("throughput of %d short tasks beside %d that wait", activeTasks, depth),
		Ours:    perSecond, Target: 0.9 * alone, AtLeast: true, Unit: "1/s", NotReached: perSecond == 0 || alone == 0,
		Peer: &report.Peer{Name: "none waiting", Value: alone},
	}
}

// createWaitingTasks pauses a swarm and creates tasks that wait in it.
func (b *bench) createWaitingTasks(ctx context.Context, depth int) error {
	if err := b.cluster.setMode(ctx, "parked", v1alpha1.SwarmPaused); err != nil {
		return err
	}
	fmt.Printf("creating %d tasks that wait\n", depth)
	limited, cancel := context.WithTimeout(ctx, rowLimit)
	defer cancel()
	return b.cluster.submit(limited, "parked", "parked", depth)
}

// throughputBeside returns the throughput of one swarm while the given number of tasks waits in the other, or 0 if it did not finish in
// time.
func (b *bench) throughputBeside(ctx context.Context, depth int) (float64, error) {
	began := time.Now()
	if err := b.finish(ctx, fmt.Sprintf("beside%d", depth), "fleet", activeTasks); err != nil {
		return 0, ignoreDeadline(err)
	}
	return activeTasks / time.Since(began).Seconds(), nil
}

// ignoreDeadline ends a row that took too long. It is reported as not reached.
func ignoreDeadline(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// unpause measures how long the first completion takes.
func (b *bench) unpause(ctx context.Context, depth int) error {
	limited, cancel := context.WithTimeout(ctx, rowLimit)
	defer cancel()
	began := time.Now()
	err := b.unpauseAndAwaitFirst(limited)
	b.report.Add(unpauseLine(depth, time.Since(began), err))
	return ignoreDeadline(err)
}

func unpauseLine(depth int, took time.Duration, err error) report.Line {
	return report.Line{
		Measure: claim(depth, "[X05/first-completion] ") + fmt.Sprintf("first completion after unpausing %d tasks", depth),
		Ours:    took.Seconds(), Target: 2, Unit: "s", NotReached: err != nil,
	}
}

// unpauseAndAwaitFirst unpauses the swarm of the waiting tasks, and returns when the first of them is finished.
func (b *bench) unpauseAndAwaitFirst(ctx context.Context) error {
	finished, err := b.cluster.watchCompleted(ctx)
	if err != nil {
		return err
	}
	if err := b.cluster.setMode(ctx, "parked", v1alpha1.SwarmRunning); err != nil {
		return err
	}
	return awaitAll(ctx, finished, nil, "parked", 1)
}

// claim attaches a clause of the acceptance list to the rows of the greatest depth.
func claim(depth int, clause string) string {
	if depth < depths[len(depths)-1] {
		return ""
	}
	return clause
}

func (c *cluster) setMode(ctx context.Context, swarm string, mode v1alpha1.SwarmMode) error {
	patch := fmt.Appendf(nil, `{"spec":{"mode":%q}}`, mode)
	changed := &v1alpha1.Swarm{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: swarm}}
	if err := c.api.Patch(ctx, changed, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("set mode of swarm %q: %w", swarm, err)
	}
	return nil
}
