package dispatch

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// asked records which tasks should be reconciled.
type asked map[types.NamespacedName]int

func (a asked) After(name types.NamespacedName, _ time.Duration) { a[name]++ }

// A former leader gave attempt 1 to a, which has ended, and attempt 2, when a's lease was over, to b. Neither is stored. The
// assignment of b may still be in transit: if the task became final now, it would start after that.
func TestEndThatIsNotStoredWaitsForTheGate(t *testing.T) {
	for name, opens := range map[string]func(t *testing.T, d *desk){
		"until the others have said what they run": func(t *testing.T, d *desk) { d.joins(t, "b", "s", 1) },
		"until their leases are over":              func(*testing.T, *desk) { time.Sleep(lapse(15 * time.Second)) },
	} {
		for _, ruled := range []bool{true, false} {
			atDesk(t, []corev1.Pod{pod("a", "s"), pod("b", "s")}, func(t *testing.T, d *desk) {
				if ruled {
					d.rule("s")
				}
				task := d.task("t", "s")
				a := link.Agent{Namespace: "ns", Name: "a"}
				result := &linkv1.Result{Attempt: &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 1}, Outcome: linkv1.Outcome_OUTCOME_SUCCEEDED}
				if err := d.Joined(a, "pod-a", &linkv1.Hello{Swarm: "s", Slots: 1, Unacknowledged: []*linkv1.Result{result}}); err != nil {
					t.Fatal(err)
				}
				d.credit(a, 1)
				d.steps()
				if view := d.Observe(task, Brief{}); view.HeldBack.IsZero() || view.Ended != nil {
					t.Errorf("%s: %+v is to be stored too early", name, view.Ended)
				}
				reconciled := asked{}
				d.config.Tasks = reconciled
				opens(t, d)
				d.steps()
				if view := d.Observe(task, Brief{}); reconciled[nameOf(task)] == 0 || view.Ended == nil || view.Ended.Epoch != 1 {
					t.Errorf("%s: reconciled %d times, %+v is to be stored", name, reconciled[nameOf(task)], view.Ended)
				}
			})
		}
	}
}

// A stored attempt has no newer one that is not stored: reassignments are stored first.
func TestEndOfAnAttemptThatIsStoredDoesNotWait(t *testing.T) {
	atDesk(t, []corev1.Pod{pod("a", "s"), pod("b", "s")}, func(t *testing.T, d *desk) {
		d.rule("s")
		task := d.task("t", "s")
		task.Status.Epoch = 1
		d.stores(task)
		a := d.joins(t, "a", "s", 1)
		d.Observe(task, Brief{})
		d.concludes(a, &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 1}, linkv1.Outcome_OUTCOME_SUCCEEDED)
		if view := d.Observe(task, Brief{}); view.Ended == nil {
			t.Errorf("waits: %+v", view)
		}
	})
}

// An attempt was given up, and its agent returns with a failure before that is stored.
func TestFailureIsAcknowledgedWhenTheLossIsStored(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		a := d.joins(t, "a", "s", 1)
		task := d.task("t", "s")
		d.steps()
		attempt := d.assigned()[0]
		d.settles(task)
		d.Left(a)
		time.Sleep(17 * time.Second)
		d.steps()
		acknowledged := func() int {
			count := 0
			for _, message := range d.sent {
				if message.GetAcknowledge() != nil {
					count++
				}
			}
			return count
		}
		if err := d.Joined(a, "pod-a", &linkv1.Hello{Swarm: "s", Slots: 1}); err != nil {
			t.Fatal(err)
		}
		d.concludes(a, attempt, linkv1.Outcome_OUTCOME_FAILED)
		if acknowledged() > 0 {
			t.Error("acknowledged before the loss is stored")
		}
		d.settles(task)
		d.concludes(a, attempt, linkv1.Outcome_OUTCOME_FAILED)
		if acknowledged() != 1 {
			t.Errorf("acknowledged %d times after the loss was stored", acknowledged())
		}
	})
}
