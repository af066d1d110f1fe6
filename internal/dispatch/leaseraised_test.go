package dispatch

import (
	"slices"
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// If the Agent object is deleted, the next leader waits for the lease that is stored with what the agent runs.
func TestLongerLeaseIsStoredWithWhatRunsBeforeItIsTold(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		d.Enrol(agentWith(20), 20*time.Second)
		d.opens(t, &linkv1.Hello{})
		task := d.task("t", "s")
		d.steps()
		running := d.assigned()
		d.writes(task)
		d.signals = nil
		d.Enrol(agentWith(50), 50*time.Second)
		if len(d.disconnected) > 0 || !slices.Contains(d.signals, signal{"t", 0}) {
			t.Fatalf("disconnected %v before what runs was written again, signals %v", d.disconnected, d.signals)
		}
		d.signals = nil
		d.writes(task)
		if task.Status.AssignedAgents[0].LeaseSeconds != 50 || !slices.Contains(d.signals, signal{"a", 0}) {
			t.Fatalf("stored %+v, signals %v", task.Status.AssignedAgents, d.signals)
		}
		d.Enrol(agentWith(50), 50*time.Second)
		d.cutOff(t)
		if told := d.opens(t, &linkv1.Hello{Running: running}); told != 50*time.Second {
			t.Errorf("told %s after it was stored", told)
		}
	})
}

// The write of an assignment is in flight, with the lease that was stored when it began.
func TestLongerLeaseWaitsForAWriteThatIsUnderWay(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		d.Enrol(agentWith(20), 20*time.Second)
		d.opens(t, &linkv1.Hello{})
		task := d.task("t", "s")
		d.steps()
		d.Observe(task, Brief{})
		d.Enrol(agentWith(50), 50*time.Second)
		if len(d.disconnected) > 0 {
			t.Error("told while the shorter one is being stored")
		}
	})
}

// writes acts as the controller: it stores the assignment of a task with its lease.
func (d *desk) writes(task *v1alpha1.Task) {
	held := d.Observe(task, Brief{}).Held
	given := v1alpha1.AssignedAgent{Name: held.Agent, Epoch: held.Epoch, LeaseSeconds: int32(held.Lease / time.Second)}
	task.Status.Epoch, task.Status.AssignedAgents = held.Epoch, []v1alpha1.AssignedAgent{given}
	d.stores(task)
	d.Settle(task, nil)
}
