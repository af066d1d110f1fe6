package crash

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("An operator that is killed right after a write", func() {
	It("comes to the same end after every single one in the life of a swarm [S15/no-duplicates, S15/same-end-state, K02, O09]", swarms.test)
	It("comes to the same end after every single one in the life of a pool, evictions included [P21]", pools.test)
	It("comes to the same end after every eviction in the life of a workload that is spread", func(ctx SpecContext) {
		DeferCleanup(unregister)
		spreadScenario.test(ctx)
	})
})

// test runs the scenario undisturbed, and then with the operator killed after each write in turn.
func (s scenario) test(ctx SpecContext) {
	began := time.Now()
	undisturbed, err := s.runOnce(ctx, nil, nil)
	Expect(err).NotTo(HaveOccurred())
	writes, _ := undisturbed.proxy.recordedWrites()
	AddReportEntry("undisturbed", ReportEntryVisibilityAlways, fmt.Sprintf("%d writes in %.1f s", len(writes), undisturbed.duration.Seconds()))

	outcome := s.runAll(ctx, undisturbed, s.crashPoints(writes))
	AddReportEntry("killed after each", ReportEntryVisibilityAlways, fmt.Sprintf("%s, all in %.0f s", outcome, time.Since(began).Seconds()))
	Expect(outcome.problems).To(BeEmpty())
	Expect(kinds(outcome.crashPoints)).To(ContainElements(kinds(writes)), "every kind of write was the last of an operator")
}

// crashPoints are the writes after which an operator is killed.
func (s scenario) crashPoints(writes []crashPoint) []crashPoint {
	if len(s.everyKinds) == 0 {
		return writes
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(writes), func(made crashPoint) bool {
		kind := made.kind()
		known := seen[kind]
		seen[kind] = true
		return known && !slices.Contains(s.everyKinds, kind)
	})
}

// An outcome sums up runs.
type outcome struct {
	crashPoints []crashPoint // after which an operator was killed
	missed      []crashPoint // which their runs did not reach
	slowest     *run
	problems    []string
}

func (o outcome) String() string {
	return fmt.Sprintf("%d operators were killed, the slowest run took %.1f s, that with %s; %d writes were not made in their run: %v",
		len(o.crashPoints), o.slowest.duration.Seconds(), o.slowest.proxy.crashPoints, len(o.missed), o.missed)
}

// addRun adds a run.
func (o *outcome) addRun(r *run, err error) {
	_, reached := r.proxy.recordedWrites()
	for _, fatal := range r.proxy.crashPoints {
		if slices.Contains(reached, fatal) {
			o.crashPoints = append(o.crashPoints, fatal)
		} else {
			o.missed = append(o.missed, fatal)
		}
	}
	if o.slowest == nil || o.slowest.duration < r.duration {
		o.slowest = r
	}
	if err != nil {
		o.problems = append(o.problems, fmt.Sprintf("killed after %s, in namespace %s: %v", reached, r.namespace, err))
	}
}

// runAll runs all runs.
func (s scenario) runAll(ctx context.Context, undisturbed *run, writes []crashPoint) outcome {
	var group sync.WaitGroup
	var mu sync.Mutex
	var sum outcome
	semaphore := make(chan []crashPoint)
	for range s.concurrency {
		group.Go(func() {
			for fatal := range semaphore {
				played, err := s.runOnce(ctx, fatal, undisturbed)
				mu.Lock()
				sum.addRun(played, err)
				mu.Unlock()
			}
		})
	}
	for _, fatal := range s.groupIntoRuns(writes) {
		semaphore <- fatal
	}
	close(semaphore)
	group.Wait()
	return sum
}

// groupIntoRuns sorts all writes into as few runs as possible: in each run one operator is killed in every stage. The state after each
// stage is compared with the undisturbed run, so that a stage does not depend on kills in earlier stages.
func (s scenario) groupIntoRuns(writes []crashPoint) (runs [][]crashPoint) {
	count := map[string]int{}
	for _, crashPoints := range writes {
		for range max(1, s.repeat[crashPoints.stage]) {
			at := count[crashPoints.stage]
			count[crashPoints.stage]++
			if at == len(runs) {
				runs = append(runs, nil)
			}
			runs[at] = append(runs[at], crashPoints)
		}
	}
	return runs
}

// kind is a write without a name, such as "PATCH swarms/status".
func (p crashPoint) kind() string {
	parts := strings.Split(p.request, "/")
	return strings.Join(slices.Delete(parts, min(1, len(parts)), min(2, len(parts))), "/")
}

// kinds are the kinds of writes, without repetitions.
func kinds(writes []crashPoint) []string {
	var sorted []string
	for _, made := range writes {
		sorted = append(sorted, made.kind())
	}
	slices.Sort(sorted)
	return slices.Compact(sorted)
}
