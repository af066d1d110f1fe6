package task

import (
	"strings"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

// The stored state of an attempt lets the next leader prove its end, or wait long enough.
func TestAssignmentIsStoredWithItsProcess(t *testing.T) {
	longest := strings.Repeat("x", maxID)
	for id, want := range map[string]string{"p": "p", "": "", longest: longest, longest + "x": "", "\xff": ""} {
		got := assignedAgent(dispatch.Assignment{
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
		setRunning(task)
		task.Status.AssignedAgents[0].LeaseSeconds = c.stored
		got := plan(task, assignedSnapshot(5*time.Second, func(assignment *dispatch.Assignment, view *dispatch.TaskView) {
			assignment.Lease, view.LastWrite = c.lease, noon
		}), noon)
		if wrote := got.Status.AssignedAgents[0].LeaseSeconds != c.stored; wrote != c.writes {
			t.Errorf("%s: %+v", name, got.Status.AssignedAgents)
		}
	}
}

// An agent dies with the leader. The next leader sees the container status and moves the task long before the lease ends.
func TestNextLeaderMovesTheTaskOfAnAgentThatIsProvenDead(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		sim.submit("t", behavior{duration: 10 * time.Second})
		sim.advance(3 * time.Second)
		dead := sim.process("a")
		sim.startPod("b", 1)
		sim.advance(time.Second)
		sim.currentLeader().crash()
		dead.kill()
		sim.advance(time.Second)
		sim.elect().setRules(dispatch.SwarmRules{})
		sim.advance(time.Second)
		elected := time.Now()
		sim.currentLeader().dispatcher.MarkProcessEnded(namespacedName("a"), dispatch.Process{PodUID: dead.podUID, ID: dead.id})
		sim.waitUntil(func() bool { return sim.status("t").Reassignments == 1 })
		if waited := time.Since(elected); waited > reassignmentSlack {
			t.Errorf("given up %v after the proof", waited)
		}
		sim.advance(leaseTimeout + 10*time.Second + reassignmentSlack)
		sim.assertCompleted(t, "t", 2)
	})
}
