package assign

import (
	"cmp"
	"slices"
)

// NoSlot is the slot of a pod that has none yet.
const NoSlot = -1

// Pod is a pod of a Deployment. It holds its slot until it is deleted, even while it is terminating.
type Pod struct {
	Name    string
	Slot    int   // as recorded on the pod, or NoSlot
	Created int64 // in any unit that increases
}

// Slots returns the pods with their slots, in input order. A pod with a slot keeps it. While fewer pods than size have one, the oldest pod
// without one gets the lowest free slot. A surge pod of a rolling update thus waits for the pod that it replaces, and takes over its slot
// and jobs when that pod is gone.
//
// A Deployment that scales down may keep any of its pods. A pod whose slot is not below size gets a lower one as soon as it is free: no
// other pod would take that slot, and the workload does not want a worker with the slot that the pod has.
func Slots(pods []Pod, size int) []Pod {
	assigned := slices.Clone(pods)
	byAge := make([]*Pod, len(assigned))
	for n := range assigned {
		byAge[n] = &assigned[n]
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
	lowestFree := func() int {
		for taken[free] {
			free++
		}
		return free
	}
	for _, pod := range byAge {
		if slot := lowestFree(); pod.Slot >= size && slot < size {
			delete(taken, pod.Slot)
			pod.Slot = slot
			taken[slot] = true
		}
	}
	for _, pod := range byAge {
		if pod.Slot == NoSlot && len(taken) < size {
			pod.Slot = lowestFree()
			taken[pod.Slot] = true
		}
	}
	return assigned
}
