package dispatch

import (
	"slices"
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// If the Agent object is deleted, the next leader waits for the lease that is stored with what the agent runs.
func TestLongerLeaseIsStoredWithRunningTasksBeforeItIsSent(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		task := f.createTaskUnderLease(t, 20, 20*time.Second)
		running := f.takeAssignments()
		f.storeAssignment(task)
		f.triggers = nil
		f.SetAgent(agentWithLease(50), 50*time.Second)
		if len(f.disconnected) > 0 || !slices.Contains(f.triggers, triggered{"t", 0}) {
			t.Fatalf("disconnected %v before what runs was written again, signals %v", f.disconnected, f.triggers)
		}
		f.triggers = nil
		f.storeAssignment(task)
		if task.Status.AssignedAgents[0].LeaseSeconds != 50 || !slices.Contains(f.triggers, triggered{"a", 0}) {
			t.Fatalf("stored %+v, signals %v", task.Status.AssignedAgents, f.triggers)
		}
		f.SetAgent(agentWithLease(50), 50*time.Second)
		f.disconnectAgent(t)
		f.requireLease(t, &linkv1.Hello{Running: running}, 50*time.Second, "after it was stored")
	})
}

// The write of an assignment is in flight, with the lease that was stored when it began.
func TestLongerLeaseWaitsForAWriteThatIsUnderWay(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		task := f.createTaskUnderLease(t, 20, 20*time.Second)
		f.Observe(task, TaskInput{})
		f.SetAgent(agentWithLease(50), 50*time.Second)
		if len(f.disconnected) > 0 {
			t.Error("told while the shorter one is being stored")
		}
	})
}

// storeAssignment acts as the controller: it stores the assignment of a task with its lease.
func (f *fixture) storeAssignment(task *v1alpha1.Task) {
	held := f.Observe(task, TaskInput{}).Assignment
	assigned := v1alpha1.AssignedAgent{Name: held.Agent, Epoch: held.Epoch, LeaseSeconds: int32(held.Lease / time.Second)}
	task.Status.Epoch, task.Status.AssignedAgents = held.Epoch, []v1alpha1.AssignedAgent{assigned}
	f.bumpVersion(task)
	f.MarkStored(task, nil)
}
