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
	says := map[string]func(*testing.T, *desk, link.Agent, *linkv1.Attempt){
		"a result": func(_ *testing.T, d *desk, by link.Agent, forged *linkv1.Attempt) {
			d.concludes(by, forged, linkv1.Outcome_OUTCOME_SUCCEEDED)
		},
		"progress": func(_ *testing.T, d *desk, by link.Agent, forged *linkv1.Attempt) { d.progresses(by, forged) },
		"what it runs": func(t *testing.T, d *desk, _ link.Agent, forged *linkv1.Attempt) {
			d.joins(t, "b", "other", 1, forged)
		},
	}
	for what, say := range says {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			d.rule("s", "other")
			_, task, given := d.given(t)
			b := d.joins(t, "b", "other", 1)
			d.sequence += 100
			forged := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 2, Epoch: given.GetEpoch() + 1}
			say(t, d, b, forged)
			if view := d.Observe(task, Brief{}); view.Held == nil || view.Held.Agent == "b" || view.Held.Epoch != given.GetEpoch() || view.Held.Progress != 0 {
				t.Errorf("%s: held %+v, ended %+v", what, view.Held, view.Ended)
			}
		})
	}
}

// The holder itself may report the epoch that it was assigned, and no later one.
func TestResultOfAnEpochThatWasNotGivenOutIsRefused(t *testing.T) {
	for _, epoch := range []int64{1<<32 | math.MaxUint32, 2 << 32, math.MaxInt64, -1, 0} {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			a, task, given := d.given(t)
			forged := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: epoch}
			d.concludes(a, forged, linkv1.Outcome_OUTCOME_SUCCEEDED)
			if view := d.Observe(task, Brief{}); view.Held == nil || view.Held.Epoch != given.GetEpoch() {
				t.Errorf("epoch %d: held %+v, ended %+v", epoch, view.Held, view.Ended)
			}
		})
	}
}

// If Lease and Secret were both deleted, an agent may run what an earlier leader of a later term assigned. It is stopped, and
// the task waits for that.
func TestTaskWaitsForAnAttemptOfAnImpossibleEpoch(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		task := d.task("t", "s")
		attempt := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 9 << 32}
		a := d.joins(t, "a", "s", 2, attempt)
		d.joins(t, "b", "s", 2)
		d.steps()
		if given := d.assigned(); len(given) > 0 || d.term != 1 {
			t.Fatalf("given out in term %d: %v", d.term, given)
		}
		d.concludes(a, attempt, linkv1.Outcome_OUTCOME_CANCELLED)
		d.Observe(task, Brief{})
		d.steps()
		if given := d.assigned(); len(given) != 1 {
			t.Errorf("given out after it was stopped: %v", given)
		}
	})
}

func TestStraysOfAnAgentAreBounded(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		a := d.joins(t, "a", "s", 2)
		for n := range 1000 {
			lone := &linkv1.Attempt{Namespace: "ns", Task: fmt.Sprint("t", n), TaskUid: fmt.Sprint("u", n), Attempt: 1, Epoch: 1}
			d.concludes(a, lone, linkv1.Outcome_OUTCOME_SUCCEEDED)
		}
		if got := len(d.agents[a].strays); got != 2+spareStrays {
			t.Errorf("%d strays are remembered", got)
		}
		d.Left(a)
		time.Sleep(d.lapse())
		d.steps()
		if got := len(d.agents[a].strays); got != 0 {
			t.Errorf("%d strays are remembered of an agent that is gone", got)
		}
	})
}

// The epoch of an attempt was impossible, until the sequence passed it. The agent then takes its task, and takes it again.
func TestTaskIsNotContestedForEver(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		d.task("t", "s")
		a := d.joins(t, "a", "s", 2)
		claims := func(epochs ...int64) {
			var running []*linkv1.Attempt
			for _, epoch := range epochs {
				running = append(running, &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: epoch})
			}
			d.says(t, a, "p", &linkv1.Hello{Slots: 2, Partial: true, Running: running})
			d.Left(a)
		}
		impossible := d.newestEpoch() + passOverAtMost + 1
		claims(impossible)
		if d.contested["uid-t"] != 1 {
			t.Fatalf("contested: %v", d.contested)
		}
		d.sequence += passOverAtMost + 2
		claims(impossible)
		claims(impossible + 1)
		time.Sleep(time.Hour)
		d.steps()
		if len(d.contested) > 0 || len(d.agents) > 0 && len(d.agents[a].strays) > 0 {
			t.Errorf("contested: %v, strays: %v", d.contested, d.agents[a].strays)
		}
	})
}

// An agent receives a lease before it is known whether it may join. If it may not, it is forgotten when that lease is over,
// and no sooner: a former leader may have assigned work to it.
func TestAgentThatMayNotJoinIsForgotten(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		for n := range 100 {
			who := link.Agent{Namespace: "ns", Name: fmt.Sprint("a", n)}
			d.Lease(who, &linkv1.Hello{})
			d.steps()
			d.heard[who] = time.Now()
			d.Left(who)
		}
		if len(d.agents) != 100 {
			t.Errorf("%d agents are remembered while their leases may go on", len(d.agents))
		}
		time.Sleep(lapse(ShortestLease))
		d.steps()
		if len(d.agents) != 0 {
			t.Errorf("%d agents are remembered", len(d.agents))
		}
	})
}

// An agent claims one epoch of its own task after the other, in Hellos from which no conclusions are drawn. Each takes the
// task from the one before.
func TestStraysOfSupersededAttemptsAreBounded(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		d.task("t", "s")
		a := d.joins(t, "a", "s", 2)
		const hellos, epochs = 100, 100
		d.sequence = hellos * epochs
		for hello := range int64(hellos) {
			var running []*linkv1.Attempt
			for epoch := range int64(epochs) {
				claimed := 1<<32 | (hello*epochs + epoch + 1)
				running = append(running, &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: claimed})
			}
			d.sent = nil
			d.says(t, a, "p", &linkv1.Hello{Slots: 2, Partial: true, Running: running})
			if held := d.tasks[inNS("t")].held; held == nil || held.epoch != running[epochs-1].GetEpoch() {
				t.Fatalf("held %+v", held)
			}
			if cancelled := len(d.sent); cancelled < epochs-1 {
				t.Fatalf("%d attempts were cancelled", cancelled)
			}
			d.Left(a)
		}
		if got := len(d.agents[a].strays); got != 2+spareStrays || d.strayed[inNS("t")] != got {
			t.Errorf("%d strays are remembered, %d of the task", got, d.strayed[inNS("t")])
		}
	})
}

// Whatever an agent claims without proof, the term stays, and epochs grow.
func TestNoHelloChangesTheTerm(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			d.rule("s")
			last := d.nextEpoch()
			for range rapid.IntRange(1, 20).Draw(r, "hellos") {
				epoch := rapid.OneOf(rapid.Int64(), rapid.Int64Range(1<<32, 2<<32)).Draw(r, "epoch")
				d.joins(t, "a", "s", 1, &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "u", Attempt: 1, Epoch: epoch})
				next := d.nextEpoch()
				if d.term != 1 || next <= last || next > last+passOverAtMost+1 {
					t.Fatalf("epoch %d: term %d, epoch %d after %d", epoch, d.term, next, last)
				}
				last = next
			}
		})
	})
}

// An agent keeps reconnecting, and each time claims the highest epoch to which one Hello moves the sequence.
func TestHellosMoveTheSequenceOnlySoFarInATerm(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		first := d.nextEpoch()
		claims := func(epoch int64) {
			d.joins(t, "a", "s", 1, &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "u", Attempt: 1, Epoch: epoch})
			d.Left(leased)
		}
		hellos := 0
		for before := int64(0); before != d.newestEpoch() && hellos < 1000; hellos++ {
			before = d.newestEpoch()
			claims(before + passOverAtMost)
		}
		if moved := d.newestEpoch() - first; moved != passOverInAll || d.term != 1 {
			t.Fatalf("%d Hellos have moved the sequence by %d in term %d", hellos, moved, d.term)
		}
		claims(d.newestEpoch() + 1)
		if moved := d.newestEpoch() - first; moved != passOverInAll {
			t.Errorf("another Hello has moved the sequence, by %d in all", moved)
		}
		d.sequence = math.MaxUint32
		next := d.nextEpoch()
		claims(next + 5)
		if d.term != 2 || d.newestEpoch() != next+5 {
			t.Errorf("in the next term %d the newest epoch is %x after %x", d.term, d.newestEpoch(), next)
		}
	})
}

func TestTermEndsBeforeItsSequence(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.sequence = math.MaxUint32 - 1
		last, next := d.nextEpoch(), d.nextEpoch()
		if last != 1<<32|math.MaxUint32 || next != 2<<32|1 || d.term != 2 {
			t.Errorf("epochs %x, %x in term %d", last, next, d.term)
		}
	})
}

// A user who may write a status can store any epoch. It neither raises the term beyond bounds nor blocks other tasks.
func TestStoredEpochsAreBelievedUpToABound(t *testing.T) {
	for stored, term := range map[int64]int64{5 << 32: 6, believedTerm << 32: believedTerm + 1, (believedTerm + 1) << 32: 1, math.MaxInt64: 1} {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			poisoned := &v1alpha1.Task{}
			poisoned.Namespace, poisoned.Name, poisoned.UID = "ns", "t", "uid-t"
			poisoned.Status.Epoch = stored
			census := Census{Tasks: []v1alpha1.Task{*poisoned}}
			d.Open(census)
			if d.term != term || d.EpochInvalid(poisoned) != (term == 1) || (d.tasks[inNS("t")] == nil) != (term == 1) {
				t.Errorf("epoch %d: term %d, invalid %t", stored, d.term, d.EpochInvalid(poisoned))
			}
		})
	}
}
