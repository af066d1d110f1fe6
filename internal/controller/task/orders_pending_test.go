//go:build pending

package task

import (
	"testing"
	"time"
)

// With two leaders the property does not hold yet, for the reason that the test below shows.
func init() { likely = append(likely, "usurp") }

// A leader whose predecessor could still write when it began has to bring its caches up to date once more when it is alone: what the
// predecessor finished in the meantime was acknowledged, so no agent mentions it, and status changes of others wake no controller.
func TestLeaderLooksAgainWhenItIsAlone(t *testing.T) {
	inCluster(t, []string{"a", "b"}, func(t *testing.T, w *cluster) {
		w.submit("earlier", work{takes: time.Second})
		w.pass(3 * time.Second)
		next := w.usurp(renewDeadline)
		w.submit("t", work{takes: time.Second})
		w.pass(100 * time.Millisecond)
		next.cache.hold()
		w.pass(renewDeadline + 5*time.Second)
		next.cache.release()
		w.pass(time.Minute)
		w.completes(t, "t", 1)
	})
}
