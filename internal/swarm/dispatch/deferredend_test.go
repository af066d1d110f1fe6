package dispatch

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// triggerCounts records which tasks should be reconciled.
type triggerCounts map[types.NamespacedName]int

func (c triggerCounts) After(name types.NamespacedName, _ time.Duration) { c[name]++ }

// A former leader gave attempt 1 to a, which has ended, and attempt 2, when a's lease was over, to b. Neither is stored. The
// assignment of b may still be in transit: if the task became final now, it would start after that.
func TestUnstoredEndWaitsForRecovery(t *testing.T) {
	for name, opens := range map[string]func(t *testing.T, f *fixture){
		"until the others have said what they run": func(t *testing.T, f *fixture) { f.joinAgent(t, "b", "s", 1) },
		"until their leases are over":              func(*testing.T, *fixture) { time.Sleep(leaseTimeout(15 * time.Second)) },
	} {
		for _, ruled := range []bool{true, false} {
			withFixture(t, []corev1.Pod{pod("a", "s"), pod("b", "s")}, func(t *testing.T, f *fixture) {
				if ruled {
					f.setSwarms("s")
				}
				task := f.createTask("t", "s")
				a := link.Agent{Namespace: "ns", Name: "a"}
				result := &linkv1.Result{Attempt: &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 1},
					Outcome: linkv1.Outcome_OUTCOME_SUCCEEDED}
				if err := f.Joined(a, "pod-a", &linkv1.Hello{Swarm: "s", Slots: 1, Unacknowledged: []*linkv1.Result{result}}); err != nil {
					t.Fatal(err)
				}
				f.grantCredit(a, 1)
				f.runStep()
				if view := f.Observe(task, TaskInput{}); view.DeferredUntil.IsZero() || view.End != nil {
					t.Errorf("%s: %+v is to be stored too early", name, view.End)
				}
				counts := triggerCounts{}
				f.config.Tasks = counts
				opens(t, f)
				f.runStep()
				if view := f.Observe(task, TaskInput{}); counts[nameOf(task)] == 0 || view.End == nil || view.End.Epoch != 1 {
					t.Errorf("%s: reconciled %d times, %+v is to be stored", name, counts[nameOf(task)], view.End)
				}
			})
		}
	}
}

// A stored attempt has no newer one that is not stored: reassignments are stored first.
func TestEndOfAnAttemptThatIsStoredDoesNotWait(t *testing.T) {
	withFixture(t, []corev1.Pod{pod("a", "s"), pod("b", "s")}, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		task := f.createTask("t", "s")
		task.Status.Epoch = 1
		f.bumpVersion(task)
		a := f.joinAgent(t, "a", "s", 1)
		f.Observe(task, TaskInput{})
		f.sendResult(a, &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 1}, linkv1.Outcome_OUTCOME_SUCCEEDED)
		if view := f.Observe(task, TaskInput{}); view.End == nil {
			t.Errorf("waits: %+v", view)
		}
	})
}

// An attempt was given up, and its agent returns with a failure before that is stored.
func TestFailureIsAcknowledgedWhenTheLossIsStored(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		a, task, attempt := f.startTask(t)
		f.Left(a)
		time.Sleep(17 * time.Second)
		f.runStep()
		acknowledged := func() int {
			count := 0
			for _, message := range f.sent {
				if message.GetAcknowledge() != nil {
					count++
				}
			}
			return count
		}
		if err := f.Joined(a, "pod-a", &linkv1.Hello{Swarm: "s", Slots: 1}); err != nil {
			t.Fatal(err)
		}
		f.sendResult(a, attempt, linkv1.Outcome_OUTCOME_FAILED)
		if acknowledged() > 0 {
			t.Error("acknowledged before the loss is stored")
		}
		f.storeStatus(task)
		f.sendResult(a, attempt, linkv1.Outcome_OUTCOME_FAILED)
		if acknowledged() != 1 {
			t.Errorf("acknowledged %d times after the loss was stored", acknowledged())
		}
	})
}
