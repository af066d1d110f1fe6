package dispatch

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// cancels returns the stop orders that were sent since the last call.
func (d *desk) cancels() []*linkv1.Cancel {
	var list []*linkv1.Cancel
	for _, message := range d.sent {
		if cancel := message.GetCancel(); cancel != nil {
			list = append(list, cancel)
		}
	}
	d.sent = nil
	return list
}

func (d *desk) acknowledged() (count int) {
	for _, message := range d.sent {
		if message.GetAcknowledge() != nil {
			count++
		}
	}
	d.sent = nil
	return count
}

var swarmName = types.NamespacedName{Namespace: "ns", Name: "s"}

func TestStopIsOrderedOnceForEachKind(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		d.joins(t, "a", "s", 1)
		task := d.task("t", "s")
		d.steps()
		d.sent = nil
		for _, c := range []struct {
			stop Stop
			want int
		}{{GoOn, 0}, {HandBack, 1}, {HandBack, 0}, {Cancel, 1}, {Cancel, 0}} {
			d.Observe(task, Brief{Stop: c.stop})
			got := d.cancels()
			if len(got) != c.want || c.want == 1 && got[0].GetHandBack() != (c.stop == HandBack) {
				t.Errorf("stop %v: sent %v, want %d", c.stop, got, c.want)
			}
		}
	})
}

func TestAttemptOfASilentAgentIsLostAfterLeaseAndMargin(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		d.joins(t, "a", "s", 1)
		task := d.task("t", "s")
		d.steps()
		given := d.assigned()[0]
		time.Sleep(d.lapse() - time.Millisecond)
		d.steps()
		if view := d.Observe(task, Brief{}); view.Held == nil || view.Ended != nil {
			t.Fatalf("given up while the agent may work: %+v", view)
		}
		time.Sleep(time.Millisecond)
		d.steps()
		view := d.Observe(task, Brief{})
		if view.Held != nil || view.Ended == nil || !view.Ended.Lost || view.Ended.Epoch != given.GetEpoch() || view.Ended.Agent != "a" {
			t.Errorf("got %+v, %+v", view.Held, view.Ended)
		}
	})
}

func TestOnlyAnAgentThatLeavesIsAskedToHandBack(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		who := d.joins(t, "a", "s", 1)
		d.task("t", "s")
		d.steps()
		d.sent = nil
		wait := func(period time.Duration) []*linkv1.Cancel {
			time.Sleep(period)
			d.heard[who] = time.Now()
			d.steps()
			return d.cancels()
		}
		if got := wait(10 * finishing); len(got) > 0 {
			t.Errorf("an agent that stays was told %v", got)
		}
		d.Govern(swarmName, Rules{Leaving: []string{"a"}})
		if got := wait(finishing - time.Second); len(got) > 0 {
			t.Errorf("asked before its time to finish was over: %v", got)
		}
		if got := wait(time.Second); len(got) != 1 || !got[0].GetHandBack() {
			t.Errorf("told %v", got)
		}
		if got := wait(time.Second); len(got) > 0 {
			t.Errorf("told again: %v", got)
		}
	})
}

// An agent that cannot hand back is asked to cancel: it would hold its slot for as long as its code likes, and block the
// agent that should leave, or a task that should wait.
func TestAgentThatCannotHandBackIsToldToCancel(t *testing.T) {
	stops := map[string]func(d *desk, task *v1alpha1.Task){
		"its agent leaves": func(d *desk, _ *v1alpha1.Task) {
			d.Govern(swarmName, Rules{Leaving: []string{"a"}})
			time.Sleep(finishing)
			d.heard[link.Agent{Namespace: "ns", Name: "a"}] = time.Now()
			d.steps()
		},
		"the task is suspended": func(d *desk, task *v1alpha1.Task) { d.Observe(task, Brief{Stop: HandBack}) },
	}
	for reason, stop := range stops {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			d.noHandBack = true
			d.rule("s")
			who := d.joins(t, "a", "s", 1)
			task := d.task("t", "s")
			d.steps()
			given := d.assigned()[0]
			stop(d, task)
			if got := d.cancels(); len(got) != 1 || got[0].GetHandBack() || got[0].GetAttempt().GetEpoch() != given.GetEpoch() {
				t.Fatalf("%s: told %v, want one Cancel", reason, got)
			}
			stop(d, task)
			if got := d.cancels(); len(got) > 0 {
				t.Errorf("%s: told again: %v", reason, got)
			}
			d.concludes(who, given, linkv1.Outcome_OUTCOME_CANCELLED)
			if busy := d.busyOf(swarmName, "a"); busy != 0 {
				t.Errorf("%s: the agent still holds %d attempts", reason, busy)
			}
		})
	}
}

// If the same pod does not name an assignment, it does not have it. Another pod of that name proves nothing.
func TestHelloThatDoesNotMentionAnAttempt(t *testing.T) {
	for pod, lost := range map[string]bool{"pod-a": true, "pod-successor": false} {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			d.rule("s")
			who := d.joins(t, "a", "s", 1)
			task := d.task("t", "s")
			d.steps()
			if len(d.assigned()) != 1 {
				t.Fatal("nothing was given out")
			}
			d.settles(task)
			if err := d.Joined(who, pod, &linkv1.Hello{Swarm: "s", Slots: 1}); err != nil {
				t.Fatal(err)
			}
			d.credit(who, 1)
			if view := d.Observe(task, Brief{}); (view.Ended != nil) != lost || (view.Held != nil) == lost {
				t.Errorf("%s: held %+v, ended %+v", pod, view.Held, view.Ended)
			}
		})
	}
}

// The Lease may have been deleted: then other leaders may share this leader's term.
func TestEpochsGrowAboveThoseOfTheSameTerm(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		seen := int64(1)<<32 | 700
		d.joins(t, "a", "s", 2, &linkv1.Attempt{Namespace: "ns", Task: "unknown", TaskUid: "u", Attempt: 1, Epoch: seen})
		d.task("t", "s")
		d.steps()
		if given := d.assigned(); len(given) != 1 || given[0].GetEpoch() <= seen {
			t.Errorf("given %v, and %d was there before", given, seen)
		}
	})
}

func TestAgentOfALaterTermIsTurnedAwayOnce(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		who := link.Agent{Namespace: "ns", Name: "a"}
		hello := &linkv1.Hello{Swarm: "s", Slots: 1, Term: 8}
		if err := d.Joined(who, "pod-a", hello); err == nil {
			t.Fatal("taken in by a leader of an earlier term")
		}
		if err := d.Joined(who, "pod-a", hello); err != nil || d.term != 9 {
			t.Errorf("term %d: %v", d.term, err)
		}
	})
}

func TestBusyCountsTheAgentsOfASwarm(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s", "other")
		d.joins(t, "a", "s", 2)
		d.joins(t, "b", "s", 2)
		d.joins(t, "c", "other", 2)
		for _, name := range []string{"t", "u", "v"} {
			d.task(name, "s")
		}
		d.task("w", "other")
		if epoch := d.Epoch(swarmName); epoch != 0 {
			t.Errorf("epoch %d before anything was given out", epoch)
		}
		d.steps()
		highest := int64(0)
		for _, given := range d.assigned() {
			if given.GetTask() != "w" {
				highest = max(highest, given.GetEpoch())
			}
		}
		a, b := d.busyOf(swarmName, "a"), d.busyOf(swarmName, "b")
		if a+b != 3 || a == 0 || b == 0 || d.busyOf(swarmName, "") != 3 || d.busyOf(swarmName, "c") != 0 {
			t.Errorf("a %d, b %d, all %d, c %d", a, b, d.busyOf(swarmName, ""), d.busyOf(swarmName, "c"))
		}
		if d.Epoch(swarmName) != highest || d.Epoch(types.NamespacedName{Namespace: "ns", Name: "unknown"}) != 0 {
			t.Errorf("epoch %d, want %d", d.Epoch(swarmName), highest)
		}
	})
}

func TestDissolvedSwarmGivesNothingOut(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		d.joins(t, "a", "s", 1)
		d.Dissolve(swarmName)
		d.task("t", "s")
		d.steps()
		if given := d.assigned(); len(given) > 0 {
			t.Errorf("given %v", given)
		}
	})
}

// A task that a user finished, for example by cancelling it, must not continue unnoticed.
func TestTaskStoredAsFinalIsStopped(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		d.joins(t, "a", "s", 1)
		task := d.task("t", "s")
		d.steps()
		d.sent = nil
		task.Status.Phase = v1alpha1.TaskCancelled
		d.stores(task)
		d.Settle(task, nil)
		if got := d.cancels(); len(got) == 0 || got[0].GetHandBack() {
			t.Errorf("told %v", got)
		}
		if d.tasks[nameOf(task)] != nil || d.busyOf(swarmName, "a") != 1 {
			t.Errorf("busy %d: the slot is taken until the agent has stopped", d.busyOf(swarmName, "a"))
		}
	})
}

func TestResultIsAcknowledgedOnlyWhenItIsStored(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		who := d.joins(t, "a", "s", 1)
		task := d.task("t", "s")
		d.steps()
		given := d.assigned()[0]
		d.concludes(who, given, linkv1.Outcome_OUTCOME_SUCCEEDED)
		d.concludes(who, given, linkv1.Outcome_OUTCOME_SUCCEEDED) // again
		d.Observe(task, Brief{})
		d.Settle(task, nil) // the version before the result
		if got := d.acknowledged(); got != 0 {
			t.Fatal("the agent may forget a result that is not stored")
		}
		d.settles(task)
		if got := d.acknowledged(); got != 1 {
			t.Errorf("acknowledged %d times, want once", got)
		}
	})
}

// An agent that reported what it runs and then fell silent holds it until its lease is over, even if the task becomes known later.
func TestAttemptOfAnAgentThatLeftExpiresWithItsLease(t *testing.T) {
	atDesk(t, []corev1.Pod{pod("a", "s")}, func(t *testing.T, d *desk) {
		d.rule("s")
		who := d.joins(t, "a", "s", 1, &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 1<<32 | 5})
		d.Left(who)
		time.Sleep(5 * time.Second)
		task := d.task("t", "s")
		if view := d.Observe(task, Brief{}); view.Held == nil || view.Held.Agent != "a" {
			t.Fatalf("held %+v", view.Held)
		}
		d.heard[who] = time.Now() // does not count: the stream is gone
		time.Sleep(d.lapse() - 5*time.Second)
		d.steps()
		if view := d.Observe(task, Brief{}); view.Ended == nil || !view.Ended.Lost {
			t.Errorf("held %+v, ended %+v", view.Held, view.Ended)
		}
	})
}

func TestAgentIsForgottenWhicheverGoesFirst(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		first, second := d.joins(t, "a", "s", 1), d.joins(t, "b", "s", 1)
		d.Left(first)
		d.Dismiss(d.agents[first].object())
		d.Dismiss(d.agents[second].object())
		d.Left(second)
		if len(d.agents) != 0 {
			t.Errorf("%d agents are remembered", len(d.agents))
		}
	})
}
