package swarm

import (
	"math"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// A user who may write a status can store any epoch. One that was never issued is replaced, and reported by one event.
func TestForgedEpochIsReplaced(t *testing.T) {
	for stored, want := range map[int64]int64{0: 0, 1<<32 | 7: 1<<32 | 7, 1 << 62: 1 << 62, (1<<30 + 1) << 32: 1 << 32,
		math.MaxInt64: 1 << 32} {
		swarm := newSwarm(nil)
		swarm.Status.Epoch = stored
		r, e := newEnvironment(t, interceptor.Funcs{}, swarm)
		for range 3 {
			if _, err := r.Reconcile(t.Context(), e.getSwarm(t)); err != nil {
				t.Fatal(err)
			}
		}
		told := slices.DeleteFunc(e.events, func(reason string) bool { return reason != string(v1alpha1.ReasonEpochInvalid) })
		if got := e.getSwarm(t).Status.Epoch; got != want || len(told) > 1 || (len(told) == 1) != (got != stored) {
			t.Errorf("epoch %d became %d, want %d; events %q", stored, got, want, told)
		}
	}
}
