package main

import (
	"runtime"
	"slices"
	"time"
)

// measureTimes runs a contender several times: its answer, the median of its times, and its smallest allocation.
func (c algorithm) measureTimes(several int, p pool, before *assignment) (result assignment, took time.Duration, allocations uint64) {
	times, counts := make([]time.Duration, several), make([]uint64, several)
	for n := range several {
		run := c.prepare(p, before)
		times[n], counts[n] = measure(func() { result = run() })
	}
	return result, median(times), slices.Min(counts)
}

// measure runs something once, on a heap without garbage.
func measure(run func()) (took time.Duration, allocations uint64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	begin := time.Now()
	run()
	took = time.Since(begin)
	runtime.ReadMemStats(&after)
	return took, after.Mallocs - before.Mallocs
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
