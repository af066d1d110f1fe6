package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestDispatcherThatHangsIsNotHealthy(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		board := d.Board
		healthy := func(want bool) {
			t.Helper()
			if err := board.Healthy(nil); (err == nil) != want {
				t.Errorf("got %v", err)
			}
		}
		healthy(true) // it does not lead
		ctx, cancel := context.WithCancel(t.Context())
		go board.Run(ctx)
		time.Sleep(time.Hour)
		healthy(true)
		cancel()
		synctest.Wait()
		time.Sleep(time.Hour)
		healthy(true)

		board.pulse.beat() // of a step that is the last to end
		time.Sleep(stuckAfter)
		healthy(true)
		time.Sleep(time.Second)
		healthy(false)
	})
}
