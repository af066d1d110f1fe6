package kit

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestReconcileThatHangsIsNotHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &inFlight{}
		quick, slow := f.begin("swarm"), f.begin("task")
		time.Sleep(stuckAfter)
		if err := f.check(nil); err != nil {
			t.Errorf("got %v", err)
		}
		quick()
		time.Sleep(time.Second)
		if err := f.check(nil); err == nil || err.Error() != "a reconcile of controller task has not returned for 15m1s" {
			t.Errorf("got %v", err)
		}
		slow()
		if err := f.check(nil); err != nil {
			t.Errorf("got %v", err)
		}
	})
}
