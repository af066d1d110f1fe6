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

// atOnce is how many runs go on at the same time. They mostly wait.
const atOnce = 4

var _ = Describe("An operator that is killed right after a write", func() {
	It("comes to the same end after every single one [S15] [K02] [O09]", func(ctx SpecContext) {
		began := time.Now()
		undisturbed, err := play(ctx, 0, nil)
		Expect(err).NotTo(HaveOccurred())
		writes := undisturbed.proxy.made()
		AddReportEntry("undisturbed", ReportEntryVisibilityAlways, fmt.Sprintf("%d writes in %.1f s", len(writes), undisturbed.took.Seconds()))

		runs, problems := playAll(ctx, undisturbed, len(writes))
		AddReportEntry("killed after each", ReportEntryVisibilityAlways, summary(runs, time.Since(began)))
		for _, problem := range problems {
			AddReportEntry("problem", ReportEntryVisibilityFailureOrVerbose, problem)
		}
		Expect(problems).To(BeEmpty())
		Expect(hit(runs)).To(ContainElements(kinds(writes)), "every kind of write was the last of an operator")
	})
})

// playAll plays a run for each number of writes.
func playAll(ctx context.Context, undisturbed *run, writes int) (runs []*run, problems []string) {
	var mu sync.Mutex
	var all sync.WaitGroup
	turns := make(chan int)
	for range atOnce {
		all.Go(func() {
			for killAt := range turns {
				played, err := play(ctx, killAt, undisturbed)
				mu.Lock()
				runs = append(runs, played)
				if err != nil {
					problems = append(problems, fmt.Sprintf("killed after write %d, %q, in namespace %s: %v", killAt, played.killed, played.namespace, err))
				}
				mu.Unlock()
			}
		})
	}
	for killAt := 1; killAt <= min(writes, 14) && ctx.Err() == nil; killAt++ {
		turns <- killAt
	}
	close(turns)
	all.Wait()
	return runs, problems
}

// hit are the kinds of writes after which operators were killed.
func hit(runs []*run) []string {
	var writes []string
	for _, played := range runs {
		if played.killed != "" {
			writes = append(writes, played.killed)
		}
	}
	return kinds(writes)
}

// kinds are the writes without names and repetitions, such as "PATCH swarms/status".
func kinds(writes []string) []string {
	var sorted []string
	for _, write := range writes {
		parts := strings.Split(write, "/")
		sorted = append(sorted, strings.Join(slices.Delete(parts, min(1, len(parts)), min(2, len(parts))), "/"))
	}
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

func summary(runs []*run, took time.Duration) string {
	killed, slowest := 0, time.Duration(0)
	for _, played := range runs {
		if played.killed != "" {
			killed++
		}
		slowest = max(slowest, played.took)
	}
	return fmt.Sprintf("%d of %d runs had so many writes that the operator was killed; the slowest took %.1f s, all together %.0f s", killed, len(runs), slowest.Seconds(), took.Seconds())
}
