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
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		a, b := f.joinAgent(t, "a", "s", 1), f.joinAgent(t, "b", "s", 1)
		f.createTask("t", "s")
		f.runStep()
		attempt := f.takeAssignments()[0]
		holder, other := a, b
		if f.agents[b].countAttempts() == 1 {
			holder, other = b, a
		}
		older := proto.Clone(attempt).(*linkv1.Attempt)
		older.Epoch--
		for name, say := range map[string]func(){
			"an older epoch": func() { f.sendProgress(holder, older) },
			"another agent":  func() { f.sendProgress(other, attempt) },
			"another task's UID": func() {
				lostAttempt := proto.Clone(attempt).(*linkv1.Attempt)
				lostAttempt.TaskUid = "gone"
				f.sendProgress(holder, lostAttempt)
			},
			"a task that is unknown": func() {
				lostAttempt := proto.Clone(attempt).(*linkv1.Attempt)
				lostAttempt.Task = "gone"
				f.sendProgress(holder, lostAttempt)
			},
		} {
			f.sent = nil
			before := f.staleCount(t, "progress")
			say()
			if len(f.sent) != 1 || f.sent[0].GetCancel() == nil || f.sent[0].GetCancel().GetHandBack() || f.staleCount(t, "progress") != before+1 {
				t.Errorf("%s: sent %v", name, f.sent)
			}
		}
		f.sent = nil
		f.sendProgress(holder, attempt)
		if len(f.sent) != 0 || f.Agent(f.agents[holder].objectKey()).Workload.Running[0].Progress != 50 {
			t.Errorf("good progress: sent %v", f.sent)
		}
	})
}

func TestNewLeaderWaitsOnlyForSwarmsThatHaveNotReported(t *testing.T) {
	withFixture(t, []corev1.Pod{pod("a", "s"), pod("b", "other"), pod("c", "other")}, func(t *testing.T, f *fixture) {
		f.setSwarms("s", "other")
		f.joinAgent(t, "a", "s", 1)
		f.joinAgent(t, "b", "other", 1)
		f.createTask("t", "s")
		f.createTask("u", "other")
		f.runStep()
		if attempts := f.takeAssignments(); len(attempts) != 1 || attempts[0].GetTask() != "t" {
			t.Fatalf("given out: %v", attempts)
		}
		time.Sleep(f.leaseTimeout() - time.Millisecond)
		f.requireNoneAssigned(t) // a pod may run it
		time.Sleep(time.Millisecond)
		f.runStep()
		if attempts := f.takeAssignments(); len(attempts) != 1 || attempts[0].GetTask() != "u" {
			t.Errorf("given out after lease and margin: %v", attempts)
		}
	})
}

func TestCreditAndSlotsBoundAssignments(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		unknown := &linkv1.Attempt{Namespace: "ns", Task: "strange", TaskUid: "strange", Attempt: 1, Epoch: 1}
		a := f.joinAgent(t, "a", "s", 3, unknown)
		for _, name := range []string{"t", "u", "v", "w"} {
			f.createTask(name, "s")
		}
		f.runStep()
		attempts := f.takeAssignments()
		if len(attempts) != 2 {
			t.Fatalf("3 slots, one of them taken by an unknown attempt: %d given", len(attempts))
		}
		f.sendResult(a, attempts[0], linkv1.Outcome_OUTCOME_SUCCEEDED)
		f.runStep()
		if reassigned := f.takeAssignments(); len(reassigned) != 1 { // the third of the credit
			t.Fatalf("%d given for one slot that came free", len(reassigned))
		}
		f.sendResult(a, attempts[1], linkv1.Outcome_OUTCOME_SUCCEEDED)
		f.runStep()
		if reassigned := f.takeAssignments(); len(reassigned) != 0 {
			t.Fatalf("%d given beyond the credit", len(reassigned))
		}
		f.grantCredit(a, 4)
		f.runStep()
		if reassigned := f.takeAssignments(); len(reassigned) != 1 {
			t.Errorf("%d given for one credit", len(reassigned))
		}
	})
}

func TestWhatIsDecidedAndNotYetSentTakesCredit(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		_, again := f.decideSecondAttempt(t)
		f.createTask("u", "s")
		f.requireNoneAssigned(t) // the last credit is for what is being written
		f.storeStatus(again)
		if attempts := f.takeAssignments(); len(attempts) != 1 || attempts[0].GetTask() != "t" || attempts[0].GetAttempt() != 2 {
			t.Errorf("written and not sent: %v", attempts)
		}
	})
}

func TestAssignmentThatCannotBeSentNeverWas(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		f.joinAgent(t, "a", "s", 1)
		task := f.createTask("t", "s")
		f.sendErr = link.ErrNotLeading
		f.runStep()
		if view := f.Observe(task, TaskInput{}); view.Assignment != nil || view.End != nil {
			t.Fatalf("no agent has it: %+v", view)
		}
		f.sendErr = nil
		f.requireNoneAssigned(t) // not again at once
		time.Sleep(declinedPause)
		f.runStep()
		if attempts := f.takeAssignments(); len(attempts) != 1 || attempts[0].GetAttempt() != 1 || attempts[0].GetEpoch() != 1<<32|2 {
			t.Errorf("want the first attempt, with a new epoch: %v", attempts)
		}
	})
}

// The payloads of many tasks are too large to wait for the agent all at once. Tasks without room stay first attempts, and follow.
func TestBurstOfAssignmentsArrivesInTheEnd(t *testing.T) {
	const tasks, atOnce = 16, 6
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		a := f.joinAgent(t, "a", "s", tasks)
		for n := range tasks {
			f.createTask(fmt.Sprintf("t%02d", n), "s")
		}
		arrived := map[string]int32{}
		for round := range 3 {
			f.sendLimit = new(atOnce)
			f.runStep()
			attempts := f.takeAssignments()
			for _, attempt := range attempts {
				arrived[attempt.GetTask()] += attempt.GetAttempt()
			}
			if want := min(atOnce, tasks-round*atOnce); len(attempts) != want {
				t.Errorf("round %d: %d arrived, want %d", round, len(attempts), want)
			}
			f.heardAt[a] = time.Now()
			time.Sleep(declinedPause)
		}
		for n := range tasks {
			if name := fmt.Sprintf("t%02d", n); arrived[name] != 1 {
				t.Errorf("%s: attempts that arrived add up to %d, want the first one only", name, arrived[name])
			}
		}
		if len(f.disconnected) > 0 || !f.Agent(namespacedName("a")).Linked {
			t.Error("the agent was cut off")
		}
	})
}

func TestAgentsThatAreGoneAreForgotten(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		a, task, _ := f.assignTask(t)
		f.Forget(f.tasks[nameOf(task)].name) // deleted: its agent still runs it
		f.RemoveAgent(f.agents[a].objectKey())
		f.Left(a)
		if len(f.agents) != 1 {
			t.Fatal("what runs is to be remembered")
		}
		time.Sleep(f.leaseTimeout())
		f.runStep()
		if len(f.agents) != 0 || len(f.tasks) != 0 {
			t.Errorf("%d agents, %d tasks are left", len(f.agents), len(f.tasks))
		}
	})
}

func TestTermAboveOursTurnsAnAgentAwayOnce(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		agent, hello := link.Agent{Namespace: "ns", Name: "a"}, &linkv1.Hello{Swarm: "s", Slots: 1, Term: 6}
		if f.Joined(agent, "pod-a", hello) == nil || f.term != 7 {
			t.Fatalf("term %d", f.term)
		}
		if err := f.Joined(agent, "pod-a", hello); err != nil {
			t.Fatal(err)
		}
		f.joinAgent(t, "a", "s", 1)
		f.createTask("t", "s")
		f.runStep()
		if attempts := f.takeAssignments(); len(attempts) != 1 || attempts[0].GetEpoch()>>32 != 7 {
			t.Errorf("%v", attempts)
		}
	})
}
