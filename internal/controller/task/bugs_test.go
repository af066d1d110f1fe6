package task

import (
	"bytes"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
)

func TestA(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.lag = 200 * time.Millisecond
		w.submit("t", work{takes: 1100 * time.Millisecond})
		w.pass(5 * time.Minute)
		if w.status("t").Phase != v1alpha1.TaskCompleted {
			t.Error(w.describe())
		}
	})
}

func TestB(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{})
		w.doesEach("t", func(attempt int32) work {
			if attempt == 1 {
				return work{takes: 2 * time.Second, outcome: linkv1.Outcome_OUTCOME_RETRY, reason: "Busy"}
			}
			return work{takes: 40 * time.Second}
		})
		once := false
		w.faults.storing = func(task *v1alpha1.Task) {
			if task.Status.Attempt == 2 && !once {
				once = true
				w.relink("a")
				time.Sleep(3 * time.Second)
			}
		}
		w.pass(10 * time.Second)
		w.pod("b", 1)
		w.pass(50 * time.Second)
		if w.status("t").Phase != v1alpha1.TaskCompleted || len(w.journal.of("t")) != 2 {
			t.Error(w.describe())
		}
	})
}

func TestC2(t *testing.T) {
	inCluster(t, []string{"a", "b"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 14 * time.Second, stubborn: true})
		w.pass(500 * time.Millisecond)
		w.current().crash()
		next := w.electBehind(1)
		next.govern(dispatch.Rules{})
		w.pass(2 * time.Second)
		w.current().wire.endOf(w.agent(w.journal.of("t")[0].agent).stream)
		w.agent(w.journal.of("t")[0].agent).cable.cut()
		w.pass(time.Second)
		next.cache.release()
		w.pass(50 * time.Second)
	})
}

func TestD(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 5 * time.Second})
		w.pass(2 * time.Second)
		w.agent("a").cable.cut()
		w.pod("b", 1)
		w.faults.storing = func(task *v1alpha1.Task) {
			if task.Status.Phase == v1alpha1.TaskPending {
				w.agent("a").cable.mend()
				time.Sleep(100 * time.Millisecond)
			}
		}
		w.pass(60 * time.Second)
		if w.status("t").Phase != v1alpha1.TaskCompleted || len(w.journal.of("t")) != 1 {
			t.Error(w.describe())
		}
		t.Logf("%+v", w.journal.acksOf("t"))
	})
}

func TestE(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 5 * time.Second}, func(spec *v1alpha1.TaskSpec) {
			spec.Payload = &apiextensionsv1.JSON{Raw: append(append([]byte(`{"a":"`), bytes.Repeat([]byte("x"), 9000)...), `"}`...)}
		})
		w.pass(10 * time.Second)
		if w.status("t").Phase != v1alpha1.TaskFailed || len(w.journal.of("t")) != 0 {
			t.Error(w.describe())
		}
	})
}

func TestF(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, w *cluster) {
		w.current().govern(dispatch.Rules{Leaving: []string{"a"}})
		w.pod("a", 1)
		w.pass(2 * time.Second)
		w.submit("t", work{takes: 5 * time.Second})
		w.pass(10 * time.Second)
		if len(w.journal.of("t")) != 0 {
			t.Error(w.describe())
		}
	})
}

func TestG(t *testing.T) {
	inCluster(t, []string{"a", "b", "c"}, func(t *testing.T, w *cluster) {
		for _, name := range []string{"t", "u", "v"} {
			w.submit(name, work{takes: 10 * time.Second})
			w.pass(10 * time.Millisecond)
		}
		w.pass(200 * time.Millisecond)
		w.current().crash()
		w.term.Store(0)
		w.elect().govern(dispatch.Rules{})
		w.pass(2 * time.Second)
		w.restart(w.journal.of("v")[0].agent)
		w.pass(time.Minute)
		t.Log(w.describe())
	})
}
