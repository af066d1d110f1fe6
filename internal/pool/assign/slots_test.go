package assign

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func slotsOf(pods []Pod) (slots []int) {
	for _, pod := range pods {
		slots = append(slots, pod.Slot)
	}
	return slots
}

func TestSlots(t *testing.T) {
	for _, c := range []struct {
		reason string
		pods   []Pod
		size   int
		want   []int
	}{
		{"the oldest first", []Pod{{"b", NoSlot, 2}, {"a", NoSlot, 1}, {"c", NoSlot, 2}}, 3, []int{1, 0, 2}},
		{"who has one keeps it", []Pod{{"a", 2, 1}, {"b", NoSlot, 2}}, 3, []int{2, 0}},
		{"a replacement takes the freed slot", []Pod{{"a", 0, 1}, {"c", 2, 3}, {"new", NoSlot, 9}}, 3, []int{0, 2, 1}},
		{"a pod made in advance waits", []Pod{{"a", 0, 1}, {"b", 1, 2}, {"new", NoSlot, 9}}, 2, []int{0, 1, NoSlot}},
		{"two pods with one slot: the older keeps it", []Pod{{"young", 0, 2}, {"old", 0, 1}}, 2, []int{1, 0}},
		{"high slots move down after scaling in", []Pod{{"d", 3, 1}, {"e", 4, 2}}, 2, []int{0, 1}},
		{"high slots wait until a lower one is free", []Pod{{"a", 0, 1}, {"c", 2, 3}}, 1, []int{0, 2}},
		{"a high slot moves down before a new pod gets one", []Pod{{"new", NoSlot, 9}, {"b", 1, 2}}, 1, []int{NoSlot, 0}},
		{"nonsense is no slot", []Pod{{"a", -7, 1}}, 1, []int{0}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			if got := slotsOf(Slots(c.pods, c.size)); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// A rolling update replaces all pods, one surge pod at a time, and moves no job: each new pod takes over the list of an old one.
func TestRollingUpdateMovesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 6).Draw(t, "size")
		var pods []Pod
		for n := range size {
			pods = append(pods, Pod{fmt.Sprint("old-", n), NoSlot, int64(n)})
		}
		pods = Slots(pods, size)
		in := Input{Jobs: newTestList(t, equalJobs(20)...), Workers: workersOf(pods)}
		in.Previous = Plan(in).Next
		for n := range size {
			pods = Slots(append(pods, Pod{fmt.Sprint("new-", n), NoSlot, int64(100 + n)}), size)
			deleted := rapid.SampledFrom(slices.Collect(func(yield func(int) bool) {
				for at, pod := range pods {
					if pod.Created < 100 && !yield(at) {
						return
					}
				}
			})).Draw(t, "gone")
			pods = Slots(slices.Delete(pods, deleted, deleted+1), size)
			in.Workers = workersOf(pods)
			decision := Plan(in)
			if moves := decision.Moves(); len(moves) > 0 {
				t.Fatalf("%v moves %v", pods, moves)
			}
			in.Previous = decision.Next
		}
	})
}

func workersOf(pods []Pod) (workers []Worker) {
	for _, pod := range pods {
		workers = append(workers, Worker{Name: pod.Name, Ordinal: pod.Slot})
	}
	return workers
}
