package dispatch

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

func TestStaleProgressIsAnsweredByCancelAndCounted(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		a, b := d.joins(t, "a", "s", 1), d.joins(t, "b", "s", 1)
		d.task("t", "s")
		d.steps()
		given := d.assigned()[0]
		holder, other := a, b
		if d.agents[b].busy() == 1 {
			holder, other = b, a
		}
		older := proto.Clone(given).(*linkv1.Attempt)
		older.Epoch--
		for name, say := range map[string]func(){
			"an older epoch": func() { d.progresses(holder, older) },
			"another agent":  func() { d.progresses(other, given) },
			"another task's UID": func() {
				gone := proto.Clone(given).(*linkv1.Attempt)
				gone.TaskUid = "gone"
				d.progresses(holder, gone)
			},
			"a task that is unknown": func() { gone := proto.Clone(given).(*linkv1.Attempt); gone.Task = "gone"; d.progresses(holder, gone) },
		} {
			d.sent = nil
			before := d.stales(t, "progress")
			say()
			if len(d.sent) != 1 || d.sent[0].GetCancel() == nil || d.sent[0].GetCancel().GetHandBack() || d.stales(t, "progress") != before+1 {
				t.Errorf("%s: sent %v", name, d.sent)
			}
		}
		d.sent = nil
		d.progresses(holder, given)
		if len(d.sent) != 0 || d.Agent(d.agents[holder].object()).Workload.Running[0].Progress != 50 {
			t.Errorf("good progress: sent %v", d.sent)
		}
	})
}

func TestNewLeaderHoldsBackOnlyTheSwarmThatHasNotSpoken(t *testing.T) {
	atDesk(t, []corev1.Pod{pod("a", "s"), pod("b", "other"), pod("c", "other")}, func(t *testing.T, d *desk) {
		d.rule("s", "other")
		d.joins(t, "a", "s", 1)
		d.joins(t, "b", "other", 1)
		d.task("t", "s")
		d.task("u", "other")
		d.steps()
		if given := d.assigned(); len(given) != 1 || given[0].GetTask() != "t" {
			t.Fatalf("given out: %v", given)
		}
		time.Sleep(d.lapse() - time.Millisecond)
		d.steps()
		if given := d.assigned(); len(given) != 0 {
			t.Fatalf("given out while a pod may run it: %v", given)
		}
		time.Sleep(time.Millisecond)
		d.steps()
		if given := d.assigned(); len(given) != 1 || given[0].GetTask() != "u" {
			t.Errorf("given out after lease and margin: %v", given)
		}
	})
}

func TestCreditAndSlotsBoundWhatIsGivenOut(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		strange := &linkv1.Attempt{Namespace: "ns", Task: "strange", TaskUid: "strange", Attempt: 1, Epoch: 1}
		a := d.joins(t, "a", "s", 3, strange)
		for _, name := range []string{"t", "u", "v", "w"} {
			d.task(name, "s")
		}
		d.steps()
		given := d.assigned()
		if len(given) != 2 {
			t.Fatalf("3 slots, one of them taken by an unknown attempt: %d given", len(given))
		}
		d.concludes(a, given[0], linkv1.Outcome_OUTCOME_SUCCEEDED)
		d.steps()
		if again := d.assigned(); len(again) != 1 { // the third of the credit
			t.Fatalf("%d given for one slot that came free", len(again))
		}
		d.concludes(a, given[1], linkv1.Outcome_OUTCOME_SUCCEEDED)
		d.steps()
		if again := d.assigned(); len(again) != 0 {
			t.Fatalf("%d given beyond the credit", len(again))
		}
		d.credit(a, 4)
		d.steps()
		if again := d.assigned(); len(again) != 1 {
			t.Errorf("%d given for one credit", len(again))
		}
	})
}

func TestWhatIsDecidedAndNotYetSentTakesCredit(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		a := d.joins(t, "a", "s", 2)
		again := d.task("t", "s")
		d.steps()
		d.concludes(a, d.assigned()[0], linkv1.Outcome_OUTCOME_HANDED_BACK)
		d.settles(again)
		d.steps() // decided, to be written
		d.task("u", "s")
		d.steps()
		if given := d.assigned(); len(given) != 0 {
			t.Fatalf("the last credit is for what is being written: %v", given)
		}
		d.settles(again)
		if given := d.assigned(); len(given) != 1 || given[0].GetTask() != "t" || given[0].GetAttempt() != 2 {
			t.Errorf("written and not sent: %v", given)
		}
	})
}

func TestAssignmentThatCannotBeSentNeverWas(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		d.joins(t, "a", "s", 1)
		task := d.task("t", "s")
		d.refuse = link.ErrNotLeading
		d.steps()
		if view := d.Observe(task, Brief{}); view.Held != nil || view.Ended != nil {
			t.Fatalf("no agent has it: %+v", view)
		}
		d.refuse = nil
		d.steps()
		if given := d.assigned(); len(given) != 0 {
			t.Fatalf("tried again at once: %v", given)
		}
		time.Sleep(declinedPause)
		d.steps()
		if given := d.assigned(); len(given) != 1 || given[0].GetAttempt() != 1 || given[0].GetEpoch() != 1<<32|2 {
			t.Errorf("want the first attempt, with a new epoch: %v", given)
		}
	})
}

// The payloads of many tasks are too large to wait for the agent all at once. Tasks without room stay first attempts, and follow.
func TestBurstOfAssignmentsArrivesInTheEnd(t *testing.T) {
	const tasks, atOnce = 16, 6
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		a := d.joins(t, "a", "s", tasks)
		for n := range tasks {
			d.task(fmt.Sprintf("t%02d", n), "s")
		}
		arrived := map[string]int32{}
		for round := range 3 {
			d.room = new(atOnce)
			d.steps()
			given := d.assigned()
			for _, attempt := range given {
				arrived[attempt.GetTask()] += attempt.GetAttempt()
			}
			if want := min(atOnce, tasks-round*atOnce); len(given) != want {
				t.Errorf("round %d: %d arrived, want %d", round, len(given), want)
			}
			d.heard[a] = time.Now()
			time.Sleep(declinedPause)
		}
		for n := range tasks {
			if name := fmt.Sprintf("t%02d", n); arrived[name] != 1 {
				t.Errorf("%s: attempts that arrived add up to %d, want the first one only", name, arrived[name])
			}
		}
		if len(d.disconnected) > 0 || !d.Agent(inNS("a")).Linked {
			t.Error("the agent was cut off")
		}
	})
}

func TestAgentsThatAreGoneAreForgotten(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		a := d.joins(t, "a", "s", 1)
		task := d.task("t", "s")
		d.steps()
		d.Forget(d.tasks[nameOf(task)].name) // deleted: its agent still runs it
		d.Dismiss(d.agents[a].object())
		d.Left(a)
		if len(d.agents) != 1 {
			t.Fatal("what runs is to be remembered")
		}
		time.Sleep(d.lapse())
		d.steps()
		if len(d.agents) != 0 || len(d.tasks) != 0 {
			t.Errorf("%d agents, %d tasks are left", len(d.agents), len(d.tasks))
		}
	})
}

func TestTermAboveOursTurnsAnAgentAwayOnce(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		who, hello := link.Agent{Namespace: "ns", Name: "a"}, &linkv1.Hello{Swarm: "s", Slots: 1, Term: 6}
		if d.Joined(who, "pod-a", hello) == nil || d.term != 7 {
			t.Fatalf("term %d", d.term)
		}
		if err := d.Joined(who, "pod-a", hello); err != nil {
			t.Fatal(err)
		}
		d.joins(t, "a", "s", 1)
		d.task("t", "s")
		d.steps()
		if given := d.assigned(); len(given) != 1 || given[0].GetEpoch()>>32 != 7 {
			t.Errorf("%v", given)
		}
	})
}
