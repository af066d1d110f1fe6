package assign

import (
	"cmp"
	"slices"
)

// NoSlot is the slot of a pod that has none yet.
const NoSlot = -1

// Pod is a pod of a Deployment. It holds its slot until it is gone, also while it is terminating.
type Pod struct {
	Name    string
	Slot    int   // as recorded on the pod, or NoSlot
	Created int64 // in any unit that grows
}

// Slots gives pods their numbers, in the order in which the pods come. Who has one keeps it; who has none gets the lowest free one,
// the oldest pod first, while fewer pods than size have one. So a pod that a rolling update makes in advance waits for the one that it replaces,
// takes its slot when that is gone, and with it the jobs.
//
// A Deployment that shrinks may keep any of its pods. A pod whose slot is not below size gets one that is, as soon as it is free: nobody
// else would ever take it, and the workload does not want a worker with the slot that the pod has.
func Slots(pods []Pod, size int) []Pod {
	given := slices.Clone(pods)
	byAge := make([]*Pod, len(given))
	for n := range given {
		byAge[n] = &given[n]
	}
	slices.SortFunc(byAge, func(a, b *Pod) int { return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.Name, b.Name)) })
	taken := map[int]bool{}
	for _, pod := range byAge {
		if pod.Slot < 0 || taken[pod.Slot] {
			pod.Slot = NoSlot
			continue
		}
		taken[pod.Slot] = true
	}
	free := 0
	lowest := func() int {
		for taken[free] {
			free++
		}
		return free
	}
	for _, pod := range byAge {
		if slot := lowest(); pod.Slot >= size && slot < size {
			delete(taken, pod.Slot)
			pod.Slot = slot
			taken[slot] = true
		}
	}
	for _, pod := range byAge {
		if pod.Slot == NoSlot && len(taken) < size {
			pod.Slot = lowest()
			taken[pod.Slot] = true
		}
	}
	return given
}
