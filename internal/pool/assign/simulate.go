package assign

import (
	"cmp"
	"slices"
)

// maxSimulatedSteps limits how often a simulation checks the records: it publishes twice, and checks after each that the step is confirmed.
// Records that contradict themselves never are.
const maxSimulatedSteps = 5

// SimulateHandover returns the publishing steps of a handover in which every worker confirms at once.
func SimulateHandover(target []Share, records []Record, handoff Handoff) (steps []Step) {
	records = slices.Clone(records)
	for range maxSimulatedSteps {
		step := Handover(target, records, handoff)
		if len(step.Publish) > 0 {
			steps = append(steps, step)
		}
		if step.Phase == Done {
			break
		}
		records = acknowledgeAll(records, step)
	}
	return steps
}

// acknowledgeAll returns the records after every worker has confirmed a step.
func acknowledgeAll(records []Record, step Step) []Record {
	index := make(map[string]int, len(records))
	for n := range records {
		index[records[n].Worker] = n
	}
	for _, share := range step.Publish {
		at, exists := index[share.Worker]
		if !exists {
			at = len(records)
			records = append(records, Record{Worker: share.Worker, Ordinal: share.Ordinal})
		}
		version := int64(1)
		if len(records[at].Lists) > 0 {
			version = records[at].newestVersion() + 1
		}
		records[at] = records[at].WithList(version, share.Jobs)
	}
	for n, r := range records {
		if len(r.Lists) > 0 {
			records[n] = r.WithPod(cmp.Or(r.PodUID, "rehearsal")).WithAcknowledgement(cmp.Or(r.PodUID, "rehearsal"), r.newestVersion())
		}
	}
	return records
}
