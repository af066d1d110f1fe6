package limit

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestSourceIsForgottenWhenItsBucketIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHandshakes(1, 100)
		use := func() (used int) {
			for h.Allow("10.0.0.1", time.Now()) {
				used++
			}
			return used
		}
		if got := use(); got != handshakeBurst*minConnectionsPerSource {
			t.Errorf("%d at once, want %d", got, handshakeBurst*minConnectionsPerSource)
		}
		time.Sleep(h.refill / 2)
		if got := use(); got != handshakeBurst*minConnectionsPerSource/2 {
			t.Errorf("%d after half of the time, want half", got)
		}
		for range 2 { // another source makes room in the tables
			time.Sleep(h.refill + 1)
			h.Allow("10.0.0.2", time.Now())
		}
		if len(h.recent)+len(h.previous) != 2 {
			t.Errorf("%d and %d sources are remembered, want the other one", len(h.recent), len(h.previous))
		}
	})
}

func TestSourcesThatAreRememberedAreBounded(t *testing.T) {
	h, now := NewHandshakes(64, 100), time.Now()
	for n := range 10_000 {
		if !h.Allow(fmt.Sprint(n), now) {
			t.Fatal("a source that is new was refused")
		}
	}
	if got := len(h.recent) + len(h.previous); got > 200 {
		t.Errorf("%d sources are remembered", got)
	}
}
