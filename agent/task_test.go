package agent

import "testing"

func TestIdempotencyKeyNamesTheTaskAndItsItem(t *testing.T) {
	for item, want := range map[int]string{-1: "uid", 0: "uid-0", 12: "uid-12"} {
		if got := (Task{UID: "uid", Item: item, Attempt: 3}).IdempotencyKey(); got != want {
			t.Errorf("item %d: got %q, want %q", item, got, want)
		}
	}
}
