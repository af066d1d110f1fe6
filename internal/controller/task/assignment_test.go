package task

import (
	"strings"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
)

// The stored state of an attempt lets the next leader prove its end, or wait long enough.
func TestAssignmentIsStoredWithItsProcess(t *testing.T) {
	longest := strings.Repeat("x", mostID)
	for id, want := range map[string]string{"p": "p", "": "", longest: longest, longest + "x": "", "\xff": ""} {
		got := assignment(dispatch.Assignment{
			Agent: "a", Attempt: 2, Epoch: 7, Lease: 1500 * time.Millisecond, Process: dispatch.Process{PodUID: "pod-a", ID: id},
		})
		if got.Process != want || (got.PodUID == "pod-a") != (want != "") || got.LeaseSeconds != 2 || got.Attempt != 2 || got.Epoch != 7 {
			t.Errorf("process %q is stored as %+v", id, got)
		}
	}
}

// A lease that was extended since is stored at once: otherwise the wait for a lost agent would be too short. Everything else waits.
func TestLongerLeaseIsStoredWithTheAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		stored int32
		lease  time.Duration
		writes bool
	}{
		"longer":              {45, time.Hour, true},
		"the same":            {45, 45 * time.Second, false},
		"shorter":             {45, 10 * time.Second, false},
		"of a version before": {0, 45 * time.Second, false},
	} {
		task := &v1alpha1.Task{}
		running(task)
		task.Status.AssignedAgents[0].LeaseSeconds = c.stored
		got := plan(task, held(5*time.Second, func(held *dispatch.Assignment, view *dispatch.TaskView) {
			held.Lease, view.LastWrite = c.lease, noon
		}), noon)
		if wrote := got.Status.AssignedAgents[0].LeaseSeconds != c.stored; wrote != c.writes {
			t.Errorf("%s: %+v", name, got.Status.AssignedAgents)
		}
	}
}

// An agent dies with the leader. The next leader sees the container status and moves the task long before the lease ends.
func TestNextLeaderMovesTheTaskOfAnAgentThatIsProvenDead(t *testing.T) {
	inCluster(t, []string{"a"}, func(t *testing.T, w *cluster) {
		w.submit("t", work{takes: 10 * time.Second})
		w.pass(3 * time.Second)
		dead := w.agent("a")
		w.pod("b", 1)
		w.pass(time.Second)
		w.current().crash()
		dead.kill()
		w.pass(time.Second)
		w.elect().govern(dispatch.SwarmRules{})
		w.pass(time.Second)
		elected := time.Now()
		w.current().board.MarkProcessEnded(named("a"), dispatch.Process{PodUID: dead.podUID, ID: dead.id})
		w.until(func() bool { return w.status("t").Reassignments == 1 })
		if waited := time.Since(elected); waited > soon {
			t.Errorf("given up %v after the proof", waited)
		}
		w.pass(lapse + 10*time.Second + soon)
		w.completes(t, "t", 2)
	})
}
