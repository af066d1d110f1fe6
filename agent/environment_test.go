package agent

import (
	"fmt"
	"slices"
	"testing"
)

func TestItemsAreNumberedFromZero(t *testing.T) {
	for item, want := range map[int]bool{-1: false, 0: true, 1: true} {
		got := slices.Contains(environment(nil, Task{Item: item}), fmt.Sprintf("SWARM_ITEM=%d", item))
		if got != want {
			t.Errorf("item %d: the program is told its index: %t", item, got)
		}
	}
}
