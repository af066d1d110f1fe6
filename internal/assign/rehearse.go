package assign

import (
	"cmp"
	"slices"
)

// mostLooks limits how often a rehearsal checks the records: it publishes twice, and checks after each that the step is confirmed.
// Records that contradict themselves never are.
const mostLooks = 5

// Rehearse returns the publishing steps of a handover in which every worker confirms at once.
func Rehearse(target []Share, records []Record, handoff Handoff) (steps []Step) {
	records = slices.Clone(records)
	for range mostLooks {
		step := Handover(target, records, handoff)
		if len(step.Publish) > 0 {
			steps = append(steps, step)
		}
		if step.Phase == Done {
			break
		}
		records = obeyed(records, step)
	}
	return steps
}

// obeyed returns the records after every worker has confirmed a step.
func obeyed(records []Record, step Step) []Record {
	index := make(map[string]int, len(records))
	for n := range records {
		index[records[n].Worker] = n
	}
	for _, share := range step.Publish {
		at, known := index[share.Worker]
		if !known {
			at = len(records)
			records = append(records, Record{Worker: share.Worker, Ordinal: share.Ordinal})
		}
		version := int64(1)
		if len(records[at].Lists) > 0 {
			version = records[at].newest() + 1
		}
		records[at] = records[at].Published(version, share.Jobs)
	}
	for n, r := range records {
		if len(r.Lists) > 0 {
			records[n] = r.Seen(cmp.Or(r.UID, "rehearsal")).Confirmed(cmp.Or(r.UID, "rehearsal"), r.newest())
		}
	}
	return records
}
