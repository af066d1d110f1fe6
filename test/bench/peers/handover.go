package main

import (
	"fmt"
	"time"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// handover measures the steps to one more worker, each with the current records.
func (b bench) handover() {
	for _, size := range []scale{small, medium} {
		c := newIncrementalPool(size)
		records := make([]assign.Record, 0, size.workers+1)
		for _, share := range c.revision.Shares() {
			records = append(records, assign.Record{Worker: share.Worker, Ordinal: share.Ordinal}.WithList(1, share.Jobs))
		}
		acknowledgeAll(records)
		c.setWorkers(workersOf(size.workers + 1))
		slowest, configs := walk(c.revision.Shares(), records)
		b.report.Time(fmt.Sprintf("Handover, %s, one worker more: the slowest step", size), milliseconds(slowest), 5, "ms")
		b.report.Count(fmt.Sprintf("Handover, %s, one worker more: steps that publish", size), float64(configs), 2, "steps")
	}
}

// walk takes all steps to a target, and returns the time of the slowest and how many of them publish.
func walk(target []assign.Share, records []assign.Record) (slowest time.Duration, configs int) {
	for version := int64(2); ; version++ {
		var step assign.Step
		times := make([]time.Duration, changeRepetitions)
		for n := range times {
			times[n], _ = measure(func() { step = assign.Handover(target, records, assign.Exclusive) })
		}
		slowest = max(slowest, median(times))
		switch step.Phase {
		case assign.Done:
			return slowest, configs
		case assign.Wait:
			acknowledgeAll(records)
		default:
			configs++
			records = publish(records, step, version)
		}
	}
}

// publish records the lists of a step.
func publish(records []assign.Record, step assign.Step, version int64) []assign.Record {
	index := make(map[string]int, len(records))
	for n := range records {
		index[records[n].Worker] = n
	}
	for _, share := range step.Publish {
		at, known := index[share.Worker]
		if !known {
			at = len(records)
			records = append(records, assign.Record{Worker: share.Worker, Ordinal: share.Ordinal})
		}
		records[at] = records[at].WithList(version, share.Jobs)
	}
	return records
}

// acknowledgeAll has all workers confirm what was published last.
func acknowledgeAll(records []assign.Record) {
	for n, record := range records {
		uid := "uid-" + record.Worker
		records[n] = record.WithPod(uid).WithAcknowledgement(uid, record.Lists[len(record.Lists)-1].Version)
	}
}
