package task

import (
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func TestSmoke(t *testing.T) {
	inCluster(t, []string{"a", "b"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 500 * time.Millisecond})
		w.submit("u", work{takes: 3 * time.Second})
		w.pass(10 * time.Second)
		t.Log(w.describe(), w.store.written("t"), w.store.written("u"))
		if w.status("t").Phase != v1alpha1.TaskCompleted {
			t.Error("not completed")
		}
	})
}
