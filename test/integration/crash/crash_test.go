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
	It("comes to the same end after every single one in the life of a swarm [S15/no-duplicates, S15/same-end-state, K02, O09]", swarms.proof)
	It("comes to the same end after every single one in the life of a pool, evictions included [P21]", pools.proof)
	It("comes to the same end after every eviction in the life of a workload that is spread", func(ctx SpecContext) {
		DeferCleanup(unregister)
		spreads.proof(ctx)
	})
})

// proof plays the scenario undisturbed, and then with each write in turn as the last of an operator.
func (s scenario) proof(ctx SpecContext) {
	began := time.Now()
	undisturbed, err := s.play(ctx, nil, nil)
	Expect(err).NotTo(HaveOccurred())
	writes, _ := undisturbed.proxy.made()
	AddReportEntry("undisturbed", ReportEntryVisibilityAlways, fmt.Sprintf("%d writes in %.1f s", len(writes), undisturbed.took.Seconds()))

	outcome := s.playAll(ctx, undisturbed, s.chosen(writes))
	AddReportEntry("killed after each", ReportEntryVisibilityAlways, fmt.Sprintf("%s, all in %.0f s", outcome, time.Since(began).Seconds()))
	Expect(outcome.problems).To(BeEmpty())
	Expect(kinds(outcome.fatal)).To(ContainElements(kinds(writes)), "every kind of write was the last of an operator")
}

// chosen are the writes after which an operator is killed.
func (s scenario) chosen(writes []point) []point {
	if len(s.every) == 0 {
		return writes
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(writes), func(made point) bool {
		kind := made.kind()
		known := seen[kind]
		seen[kind] = true
		return known && !slices.Contains(s.every, kind)
	})
}

// An outcome sums up runs.
type outcome struct {
	fatal    []point // after which an operator was killed
	missed   []point // which their runs did not come to
	slowest  *run
	problems []string
}

func (o outcome) String() string {
	return fmt.Sprintf("%d operators were killed, the slowest run took %.1f s, that with %s; %d writes were not made in their run: %v",
		len(o.fatal), o.slowest.took.Seconds(), o.slowest.proxy.fatal, len(o.missed), o.missed)
}

// add takes in a run.
func (o *outcome) add(played *run, err error) {
	_, reached := played.proxy.made()
	for _, fatal := range played.proxy.fatal {
		if slices.Contains(reached, fatal) {
			o.fatal = append(o.fatal, fatal)
		} else {
			o.missed = append(o.missed, fatal)
		}
	}
	if o.slowest == nil || o.slowest.took < played.took {
		o.slowest = played
	}
	if err != nil {
		o.problems = append(o.problems, fmt.Sprintf("killed after %s, in namespace %s: %v", reached, played.namespace, err))
	}
}

// playAll plays a run for each life.
func (s scenario) playAll(ctx context.Context, undisturbed *run, writes []point) outcome {
	var all sync.WaitGroup
	var mu sync.Mutex
	var sum outcome
	turns := make(chan []point)
	for range s.atOnce {
		all.Go(func() {
			for fatal := range turns {
				played, err := s.play(ctx, fatal, undisturbed)
				mu.Lock()
				sum.add(played, err)
				mu.Unlock()
			}
		})
	}
	for _, fatal := range s.lives(writes) {
		turns <- fatal
	}
	close(turns)
	all.Wait()
	return sum
}

// lives sorts all writes into as few runs as possible: in each run one operator is killed in every stage. What there is after a stage is always
// compared with the undisturbed run, so that a stage does not depend on kills in the stages before.
func (s scenario) lives(writes []point) (lives [][]point) {
	count := map[string]int{}
	for _, fatal := range writes {
		for range max(1, s.repeat[fatal.stage]) {
			at := count[fatal.stage]
			count[fatal.stage]++
			if at == len(lives) {
				lives = append(lives, nil)
			}
			lives[at] = append(lives[at], fatal)
		}
	}
	return lives
}

// kind is a write without a name, such as "PATCH swarms/status".
func (p point) kind() string {
	parts := strings.Split(p.write, "/")
	return strings.Join(slices.Delete(parts, min(1, len(parts)), min(2, len(parts))), "/")
}

// kinds are the kinds of writes, without repetitions.
func kinds(writes []point) []string {
	var sorted []string
	for _, made := range writes {
		sorted = append(sorted, made.kind())
	}
	slices.Sort(sorted)
	return slices.Compact(sorted)
}
