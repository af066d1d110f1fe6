package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestDispatcherThatHangsIsNotHealthy(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		dispatcher := f.Dispatcher
		healthy := func(want bool) {
			t.Helper()
			if err := dispatcher.Healthy(nil); (err == nil) != want {
				t.Errorf("got %v", err)
			}
		}
		healthy(true) // it does not lead
		ctx, cancel := context.WithCancel(t.Context())
		go dispatcher.Run(ctx)
		time.Sleep(time.Hour)
		healthy(true)
		cancel()
		synctest.Wait()
		time.Sleep(time.Hour)
		healthy(true)

		dispatcher.liveness.recordStep() // of a step that is the last to end
		time.Sleep(stuckTimeout)
		healthy(true)
		time.Sleep(time.Second)
		healthy(false)
	})
}
