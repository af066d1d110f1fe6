package assign

import (
	"cmp"
	"slices"
)

// mostLooks is how often a rehearsal looks at the records: twice to publish, after each once more to see it confirmed, and records that
// contradict themselves never are.
const mostLooks = 5

// Rehearse is the whole hand-over as it goes when everybody confirms at once: the steps that publish.
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

// obeyed are the records after everybody has confirmed a step.
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
