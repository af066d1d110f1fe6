package dispatch

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// An agent of another swarm knows the UID of a task and a later epoch. It can neither finish the task nor take it away.
func TestAgentSpeaksForItsSwarmOnly(t *testing.T) {
	senders := map[string]func(*testing.T, *fixture, link.Agent, *linkv1.Attempt){
		"a result": func(_ *testing.T, f *fixture, agent link.Agent, forged *linkv1.Attempt) {
			f.sendResult(agent, forged, linkv1.Outcome_OUTCOME_SUCCEEDED)
		},
		"progress": func(_ *testing.T, f *fixture, agent link.Agent, forged *linkv1.Attempt) {
			f.sendProgress(agent, forged)
		},
		"what it runs": func(t *testing.T, f *fixture, _ link.Agent, forged *linkv1.Attempt) {
			f.joinAgent(t, "b", "other", 1, forged)
		},
	}
	for name, send := range senders {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			f.setSwarms("s", "other")
			_, task, attempt := f.runningTask(t)
			b := f.joinAgent(t, "b", "other", 1)
			f.sequence += 100
			forged := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 2, Epoch: attempt.GetEpoch() + 1}
			send(t, f, b, forged)
			if view := f.Observe(task, TaskInput{}); view.Assignment == nil || view.Assignment.Agent == "b" ||
				view.Assignment.Epoch != attempt.GetEpoch() || view.Assignment.Progress != 0 {
				t.Errorf("%s: held %+v, ended %+v", name, view.Assignment, view.End)
			}
		})
	}
}

// The holder itself may report the epoch that it was assigned, and no later one.
func TestResultOfAnUnissuedEpochIsRefused(t *testing.T) {
	for _, epoch := range []int64{1<<32 | math.MaxUint32, 2 << 32, math.MaxInt64, -1, 0} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			a, task, attempt := f.runningTask(t)
			forged := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: epoch}
			f.sendResult(a, forged, linkv1.Outcome_OUTCOME_SUCCEEDED)
			if view := f.Observe(task, TaskInput{}); view.Assignment == nil || view.Assignment.Epoch != attempt.GetEpoch() {
				t.Errorf("epoch %d: held %+v, ended %+v", epoch, view.Assignment, view.End)
			}
		})
	}
}

// If Lease and Secret were both deleted, an agent may run what an earlier leader of a later term assigned. It is stopped, and
// the task waits for that.
func TestTaskWaitsForAnAttemptOfAnImpossibleEpoch(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		task := f.createTask("t", "s")
		attempt := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 9 << 32}
		a := f.joinAgent(t, "a", "s", 2, attempt)
		f.joinAgent(t, "b", "s", 2)
		f.runStep()
		if attempts := f.takeAssignments(); len(attempts) > 0 || f.term != 1 {
			t.Fatalf("given out in term %d: %v", f.term, attempts)
		}
		f.sendResult(a, attempt, linkv1.Outcome_OUTCOME_CANCELLED)
		f.Observe(task, TaskInput{})
		f.requireAssigned(t)
	})
}

func TestOrphansOfAnAgentAreBounded(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		a := f.joinAgent(t, "a", "s", 2)
		for n := range 1000 {
			orphan := &linkv1.Attempt{Namespace: "ns", Task: fmt.Sprint("t", n), TaskUid: fmt.Sprint("u", n), Attempt: 1, Epoch: 1}
			f.sendResult(a, orphan, linkv1.Outcome_OUTCOME_SUCCEEDED)
		}
		if got := len(f.agents[a].orphans); got != 2+spareOrphans {
			t.Errorf("%d strays are remembered", got)
		}
		f.Left(a)
		time.Sleep(f.leaseTimeout())
		f.runStep()
		if got := len(f.agents[a].orphans); got != 0 {
			t.Errorf("%d strays are remembered of an agent that is gone", got)
		}
	})
}

// The epoch of an attempt was impossible, until the sequence passed it. The agent then takes its task, and takes it again.
func TestTaskIsNotContestedForEver(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		f.createTask("t", "s")
		a := f.joinAgent(t, "a", "s", 2)
		claims := func(epochs ...int64) {
			var running []*linkv1.Attempt
			for _, epoch := range epochs {
				running = append(running, &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: epoch})
			}
			f.sendHello(t, a, "p", &linkv1.Hello{Slots: 2, Partial: true, Running: running})
			f.Left(a)
		}
		impossible := f.newestEpoch() + maxSkipPerHello + 1
		claims(impossible)
		if f.contestedTasks["uid-t"] != 1 {
			t.Fatalf("contested: %v", f.contestedTasks)
		}
		f.sequence += maxSkipPerHello + 2
		claims(impossible)
		claims(impossible + 1)
		time.Sleep(time.Hour)
		f.runStep()
		if len(f.contestedTasks) > 0 || len(f.agents) > 0 && len(f.agents[a].orphans) > 0 {
			t.Errorf("contested: %v, strays: %v", f.contestedTasks, f.agents[a].orphans)
		}
	})
}

// An agent receives a lease before it is known whether it may join. If it may not, it is forgotten when that lease is over,
// and no sooner: a former leader may have assigned work to it.
func TestAgentThatMayNotJoinIsForgotten(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		for n := range 100 {
			agent := link.Agent{Namespace: "ns", Name: fmt.Sprint("a", n)}
			f.Lease(agent, &linkv1.Hello{})
			f.runStep()
			f.heardAt[agent] = time.Now()
			f.Left(agent)
		}
		if len(f.agents) != 100 {
			t.Errorf("%d agents are remembered while their leases may go on", len(f.agents))
		}
		time.Sleep(leaseTimeout(ShortestLease))
		f.runStep()
		if len(f.agents) != 0 {
			t.Errorf("%d agents are remembered", len(f.agents))
		}
	})
}

// An agent claims one epoch of its own task after the other, in Hellos from which no conclusions are drawn. Each takes the
// task from the one before.
func TestOrphansOfSupersededAttemptsAreBounded(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		f.createTask("t", "s")
		a := f.joinAgent(t, "a", "s", 2)
		const hellos, epochs = 100, 100
		f.sequence = hellos * epochs
		for hello := range int64(hellos) {
			var running []*linkv1.Attempt
			for epoch := range int64(epochs) {
				claimed := 1<<32 | (hello*epochs + epoch + 1)
				running = append(running, &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: claimed})
			}
			f.sent = nil
			f.sendHello(t, a, "p", &linkv1.Hello{Slots: 2, Partial: true, Running: running})
			if assignment := f.tasks[namespacedName("t")].assignment; assignment == nil || assignment.epoch != running[epochs-1].GetEpoch() {
				t.Fatalf("held %+v", assignment)
			}
			if cancelled := len(f.sent); cancelled < epochs-1 {
				t.Fatalf("%d attempts were cancelled", cancelled)
			}
			f.Left(a)
		}
		if got := len(f.agents[a].orphans); got != 2+spareOrphans || f.orphanedTasks[namespacedName("t")] != got {
			t.Errorf("%d strays are remembered, %d of the task", got, f.orphanedTasks[namespacedName("t")])
		}
	})
}

// Whatever an agent claims without proof, the term stays, and epochs grow.
func TestNoHelloChangesTheTerm(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			f.setSwarms("s")
			last := f.nextEpoch()
			for range rapid.IntRange(1, 20).Draw(r, "hellos") {
				epoch := rapid.OneOf(rapid.Int64(), rapid.Int64Range(1<<32, 2<<32)).Draw(r, "epoch")
				f.joinAgent(t, "a", "s", 1, &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "u", Attempt: 1, Epoch: epoch})
				next := f.nextEpoch()
				if f.term != 1 || next <= last || next > last+maxSkipPerHello+1 {
					t.Fatalf("epoch %d: term %d, epoch %d after %d", epoch, f.term, next, last)
				}
				last = next
			}
		})
	})
}

// An agent keeps reconnecting, and each time claims the highest epoch to which one Hello moves the sequence.
func TestHellosMoveTheSequenceOnlySoFarInATerm(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		first := f.nextEpoch()
		claims := func(epoch int64) {
			f.joinAgent(t, "a", "s", 1, &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "u", Attempt: 1, Epoch: epoch})
			f.Left(leasedAgent)
		}
		hellos := 0
		for before := int64(0); before != f.newestEpoch() && hellos < 1000; hellos++ {
			before = f.newestEpoch()
			claims(before + maxSkipPerHello)
		}
		if moved := f.newestEpoch() - first; moved != maxSkipPerTerm || f.term != 1 {
			t.Fatalf("%d Hellos have moved the sequence by %d in term %d", hellos, moved, f.term)
		}
		claims(f.newestEpoch() + 1)
		if moved := f.newestEpoch() - first; moved != maxSkipPerTerm {
			t.Errorf("another Hello has moved the sequence, by %d in all", moved)
		}
		f.sequence = math.MaxUint32
		next := f.nextEpoch()
		claims(next + 5)
		if f.term != 2 || f.newestEpoch() != next+5 {
			t.Errorf("in the next term %d the newest epoch is %x after %x", f.term, f.newestEpoch(), next)
		}
	})
}

func TestTermEndsBeforeItsSequence(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.sequence = math.MaxUint32 - 1
		last, next := f.nextEpoch(), f.nextEpoch()
		if last != 1<<32|math.MaxUint32 || next != 2<<32|1 || f.term != 2 {
			t.Errorf("epochs %x, %x in term %d", last, next, f.term)
		}
	})
}

// A user who may write a status can store any epoch. It neither raises the term beyond bounds nor blocks other tasks.
func TestStoredEpochsAreAcceptedUpToABound(t *testing.T) {
	for stored, term := range map[int64]int64{5 << 32: 6, maxStoredTerm << 32: maxStoredTerm + 1, (maxStoredTerm + 1) << 32: 1,
		math.MaxInt64: 1} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			poisoned := &v1alpha1.Task{}
			poisoned.Namespace, poisoned.Name, poisoned.UID = "ns", "t", "uid-t"
			poisoned.Status.Epoch = stored
			snapshot := Snapshot{Tasks: []v1alpha1.Task{*poisoned}}
			f.Open(snapshot)
			if f.term != term || f.HasInvalidEpoch(poisoned) != (term == 1) || (f.tasks[namespacedName("t")] == nil) != (term == 1) {
				t.Errorf("epoch %d: term %d, invalid %t", stored, f.term, f.HasInvalidEpoch(poisoned))
			}
		})
	}
}
