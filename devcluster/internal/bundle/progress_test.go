package bundle

import (
	"testing"
	"time"
)

// The times are those of a whole build from an empty cache, which took 562 s.
func TestRemainingIsAboutRightFromTheMiddleOn(t *testing.T) {
	for share, spent := range map[float64]time.Duration{0.50: 166 * time.Second, 0.74: 349 * time.Second, 0.90: 460 * time.Second} {
		want := 562*time.Second - spent
		if got := remaining(spent, share); got < want*3/4 || got > want*5/4 {
			t.Errorf("at %.0f %%: %s, and it took %s", 100*share, got, want)
		}
	}
	if got := remaining(time.Minute, 1); got != 0 {
		t.Errorf("at the end: %s", got)
	}
}
