package assign

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

var scales = []struct {
	name          string
	jobs, workers int
}{{"10k-100", 10_000, 100}, {"100k-1k", 100_000, 1_000}, {"1M-10k", 1_000_000, 10_000}}

// reportMetrics adds metrics to a benchmark: balance, idle workers, and moves in multiples of the minimum.
func reportMetrics(b *testing.B, decision Decision, minimum int) {
	b.StopTimer()
	highest, total, idle := 0, 0, 0
	for _, share := range decision.Next.shares {
		highest = max(highest, share.load)
		total += share.load
		if len(share.jobs) == 0 {
			idle++
		}
	}
	b.ReportMetric(float64(highest)*float64(len(decision.Next.shares))/float64(total), "max/mean")
	b.ReportMetric(float64(idle), "idle")
	if minimum > 0 {
		b.ReportMetric(float64(countRelocated(decision))/float64(minimum), "moves/min")
	}
}

// The first plan, without a previous revision.
func BenchmarkFirst(b *testing.B) {
	for _, scale := range scales {
		list := newTestList(b, equalJobs(scale.jobs)...)
		workers := readyWorkers(scale.workers)
		for _, strategy := range strategies {
			b.Run(fmt.Sprintf("%s/%s", strategy, scale.name), func(b *testing.B) {
				b.ReportAllocs()
				var decision Decision
				for b.Loop() {
					decision = Plan(Input{Jobs: list, Workers: workers, Strategy: strategy})
				}
				reportMetrics(b, decision, 0)
			})
		}
	}
}

// One change of the workers, with the kept revision.
func BenchmarkChange(b *testing.B) {
	for _, scale := range scales {
		list, n := newTestList(b, equalJobs(scale.jobs)...), scale.workers
		changes := []struct {
			name    string
			workers []Worker
			minimum int
		}{
			{"none", readyWorkers(n), 0},
			{"plus1", readyWorkers(n + 1), scale.jobs / (n + 1)},
			{"minus1tail", readyWorkers(n - 1), scale.jobs / n},
			{"minus1middle", slices.Delete(readyWorkers(n), n/2, n/2+1), scale.jobs / n},
			{"times2", readyWorkers(2 * n), scale.jobs / 2},
			{"half", readyWorkers(n / 2), scale.jobs / 2},
		}
		for _, strategy := range strategies {
			previous := Plan(Input{Jobs: list, Workers: readyWorkers(n), Strategy: strategy}).Next
			for _, change := range changes {
				b.Run(fmt.Sprintf("%s/%s/%s", strategy, scale.name, change.name), func(b *testing.B) {
					b.ReportAllocs()
					var decision Decision
					for b.Loop() {
						decision = Plan(Input{Jobs: list, Workers: change.workers, Previous: previous, Strategy: strategy})
					}
					reportMetrics(b, decision, change.minimum)
				})
			}
		}
	}
}

// One job more or less, from a list in memory to the plan. The list is edited, or its names are read again.
func BenchmarkJob(b *testing.B) {
	for _, scale := range scales {
		jobs, workers := equalJobs(scale.jobs), readyWorkers(scale.workers)
		list := newTestList(b, slices.Clone(jobs)...)
		in := Input{Jobs: list, Workers: workers, Previous: Plan(Input{Jobs: list, Workers: workers}).Next}
		for _, names := range []string{"edited", "readAnew"} {
			if names == "readAnew" {
				jobs = equalJobs(scale.jobs)
			}
			lists := map[string][]Job{
				"added":    append(slices.Clone(jobs), Job{Name: "one more", Weight: 1}),
				"inserted": slices.Insert(slices.Clone(jobs), scale.jobs/2, Job{Name: "one more", Weight: 1}),
				"removed":  slices.Delete(slices.Clone(jobs), scale.jobs/2, scale.jobs/2+1),
			}
			for _, name := range slices.Sorted(maps.Keys(lists)) {
				b.Run(fmt.Sprintf("%s/%s/%s", scale.name, names, name), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						next, _ := list.Next(lists[name])
						in.Jobs = next
						Plan(in)
						list.names, next.names = next.names, nil // as if the change were undone
						delete(list.names, "one more")
						list.names[jobs[scale.jobs/2].Name] = struct{}{}
					}
				})
			}
		}
	}
}

// The steps of a handover to one additional worker, each with its current records.
func BenchmarkHandover(b *testing.B) {
	for _, scale := range scales {
		in := Input{Jobs: newTestList(b, equalJobs(scale.jobs)...), Workers: readyWorkers(scale.workers)}
		in.Previous = Plan(in).Next
		var settled []Record
		for _, share := range in.Previous.Shares() {
			settled = append(settled, acknowledgedRecord(share.Worker, share.Ordinal, share.Jobs...))
		}
		in.Workers = readyWorkers(scale.workers + 1)
		target := Plan(in).Next.Shares()
		for _, handoff := range []Handoff{Exclusive, Overlap} {
			records := settled
			for version, phase := range []string{"first", "waits", "second", "confirms", "done"} {
				b.Run(fmt.Sprintf("%s/%s/%s", scale.name, handoff, phase), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						Handover(target, records, handoff)
					}
				})
				if step := Handover(target, records, handoff); len(step.Publish) > 0 {
					records = publish(records, step, int64(version+2))
					continue
				}
				records = slices.Clone(records)
				for n, r := range records {
					records[n] = r.WithAcknowledgement(r.PodUID, r.newestVersion())
				}
			}
		}
	}
}

// The cost of a restart of the operator: it reads the list and restores the stored revision.
func BenchmarkRestore(b *testing.B) {
	for _, scale := range scales {
		jobs := equalJobs(scale.jobs)
		stored := Plan(Input{Jobs: newTestList(b, slices.Clone(jobs)...), Workers: readyWorkers(scale.workers)}).Next.Shares()
		b.Run(scale.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				list, _ := NewJobList(jobs)
				Plan(Input{Jobs: list, Workers: readyWorkers(scale.workers), Previous: Restore(stored, 0)})
			}
		})
	}
}

// Weighted jobs, with the kept revision.
func BenchmarkWeighted(b *testing.B) {
	for _, scale := range scales {
		jobs := equalJobs(scale.jobs)
		for n := range jobs {
			jobs[n].Weight = int32(1 + n*n%9)
		}
		list := newTestList(b, jobs...)
		for _, strategy := range []Strategy{Sticky, Hashed} {
			previous := Plan(Input{Jobs: list, Workers: readyWorkers(scale.workers), Strategy: strategy}).Next
			b.Run(fmt.Sprintf("%s/%s/plus1", strategy, scale.name), func(b *testing.B) {
				b.ReportAllocs()
				var decision Decision
				for b.Loop() {
					decision = Plan(Input{Jobs: list, Workers: readyWorkers(scale.workers + 1), Previous: previous, Strategy: strategy})
				}
				reportMetrics(b, decision, scale.jobs/(scale.workers+1))
			})
		}
	}
}
