package cli

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// pinnedRevision returns the revision that the pool is pinned to.
func (w *cliHarness) pinnedRevision() int64 {
	w.t.Helper()
	pool := &v1alpha1.WorkerPool{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: "cameras"}, pool); err != nil {
		w.t.Fatal(err)
	}
	return pool.Spec.RollbackTo
}

func TestRollback(t *testing.T) {
	for _, c := range []struct {
		reason string
		line   string
		said   string
		pin    int64
	}{
		{"back", "--to 1", "workerpool.swarm.io/cameras pinned to revision 1: 27 jobs over 2 workers: 0 move, 27 stay; 0 published configs", 1},
		{"where it is", "--to 2",
			"workerpool.swarm.io/cameras stays pinned to revision 2: 3 jobs over 2 workers: 3 move, 0 stay, 24 end; 2 published configs", 2},
		{"forth", "--undo",
			"workerpool.swarm.io/cameras no longer pinned to revision 2: 27 jobs over 2 workers: 0 move, 27 stay; 0 published configs", 0},
		{"forth, in other words", "--to 0",
			"workerpool.swarm.io/cameras no longer pinned to revision 2: 27 jobs over 2 workers: 0 move, 27 stay; 0 published configs", 0},
		{"only a look", "--to 1 --dry-run", "Nothing would move: 27 jobs over 2 workers", 2},
	} {
		t.Run(c.reason, func(t *testing.T) {
			w := newCLIHarness(t, poolWithHistory(t)...)
			if got := w.mustRun("rollback pool cameras " + c.line); got != c.said+"\n" {
				t.Errorf("got %q", got)
			}
			if pin := w.pinnedRevision(); pin != c.pin {
				t.Errorf("pinned to %d", pin)
			}
		})
	}
}

func TestRollbackShowsMoves(t *testing.T) {
	w := newCLIHarness(t, poolWithHistory(t)...)
	compare(t, "rollback.txt", w.mustRun("rollback pool cameras --to 2 --dry-run"))
	made := mustDecode[planResult](t, w.mustRun("rollback pool cameras --to 2 --dry-run -o json"))
	if made.Revision != 2 || made.Moving != 3 || made.Ending != 24 || w.pinnedRevision() != 2 {
		t.Errorf("got %+v", made)
	}
	if made := mustDecode[planResult](t, w.mustRun("rollback pool cameras --to 1 -o json")); made.Revision != 1 || w.pinnedRevision() != 1 {
		t.Errorf("got %+v", made)
	}
}

func TestRollbackOfWhatWasNotPinned(t *testing.T) {
	if got := newCLIHarness(t, convergedPool27(t)...).mustRun("rollback pool cameras --undo"); !strings.HasPrefix(got,
		"workerpool.swarm.io/cameras was not pinned: ") {
		t.Errorf("got %q", got)
	}
}

// An unreadable list is a reason to go back, not to refuse it; and workers that are gone are ignored.
func TestRollbackOfAnUnreadablePool(t *testing.T) {
	objects := poolWithHistory(t)
	objects[1], objects[2] = statefulSet(1), configMap("camera-list", "jobs.txt", "jobs: [")
	w := newCLIHarness(t, objects...)
	compare(t, "rollback-smaller.txt", w.mustRun("rollback pool cameras --to 2 --dry-run"))
	code, out, said := w.run("rollback pool cameras --undo")
	if code != exitOK || out != "workerpool.swarm.io/cameras no longer pinned to revision 2\n" ||
		!strings.HasPrefix(said, "Cannot tell what moves: ConfigMap \"camera-list\"") || w.pinnedRevision() != 0 {
		t.Errorf("exit code %d, %q, %q", code, out, said)
	}
	if code, _, _ := w.run("rollback pool cameras --undo --dry-run"); code != exitError {
		t.Errorf("exit code %d", code)
	}
}
