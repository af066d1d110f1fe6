package dispatch

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// givenBack counts the assignments that an agent gets in a time, all of which it ends with an outcome at once.
func (d *desk) givenBack(who link.Agent, outcome linkv1.Outcome, lasts time.Duration) int {
	all := 0
	for until := time.Now().Add(lasts); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		d.heard[who] = time.Now()
		for _, attempt := range d.givenOut() {
			all++
			d.concludes(who, attempt, outcome)
			d.settles(d.known[attempt.GetTask()])
		}
		d.credit(who, d.agents[who].sent+10)
	}
	return all
}

// givenOut returns the attempts that are assigned now, written first where that is required.
func (d *desk) givenOut() []*linkv1.Attempt {
	d.steps()
	for _, name := range slices.Sorted(maps.Keys(d.known)) {
		if view := d.Observe(d.known[name], Brief{}); view.Held != nil && !view.Held.First {
			d.settles(d.known[name])
		}
	}
	return d.assigned()
}

// withQueue runs a test with an agent of ten slots and more tasks than it can get.
func withQueue(t *testing.T, test func(t *testing.T, d *desk, a link.Agent)) {
	t.Helper()
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		a := d.joins(t, "a", "s", 10)
		d.known = map[string]*v1alpha1.Task{}
		for n := range 50 {
			task := d.task(fmt.Sprint("t", n), "s")
			d.known[task.Name] = task
		}
		test(t, d, a)
	})
}

// Each round costs two writes, for each of the waiting tasks: pauses of the tasks alone do not bound them.
func TestAgentThatRunsNothingIsGivenLittle(t *testing.T) {
	for _, outcome := range []linkv1.Outcome{linkv1.Outcome_OUTCOME_HANDED_BACK, linkv1.Outcome_OUTCOME_DECLINED, linkv1.Outcome_OUTCOME_CANCELLED} {
		withQueue(t, func(t *testing.T, d *desk, a link.Agent) {
			if given := d.givenBack(a, outcome, 10*time.Minute); given < 20 || given > 40 { // ten at once, then one after 1, 3, 7, 15, 31, 61 s and so on
				t.Errorf("%s: %d attempts in 10 minutes", outcome, given)
			}
			if given := d.givenBack(a, linkv1.Outcome_OUTCOME_SUCCEEDED, 2*time.Minute); given < 100 {
				t.Errorf("%s: only %d attempts after it works again", outcome, given)
			}
		})
	}
}

func TestAgentThatGetsNothingIsGivenLittle(t *testing.T) {
	withQueue(t, func(t *testing.T, d *desk, a link.Agent) {
		all := 0
		for range 600 {
			d.says(t, a, "p", &linkv1.Hello{Slots: 10})
			for _, attempt := range d.givenOut() {
				all++
				d.settles(d.known[attempt.GetTask()])
			}
			time.Sleep(time.Second)
		}
		if all < 20 || all > 40 {
			t.Errorf("%d attempts in 10 minutes", all)
		}
	})
}

// One lasting attempt is enough to be trusted with more.
func TestAgentIsTrustedWhenAnAttemptLasts(t *testing.T) {
	withQueue(t, func(t *testing.T, d *desk, a link.Agent) {
		d.givenBack(a, linkv1.Outcome_OUTCOME_DECLINED, 500*time.Millisecond)
		time.Sleep(firstRest)
		if given := d.givenOut(); len(given) != 1 {
			t.Fatalf("%d attempts after its rest", len(given))
		}
		if next := d.step(time.Now()); next > provenAfter {
			t.Errorf("looks again in %s", next)
		}
		time.Sleep(provenAfter)
		d.heard[a] = time.Now()
		if given := d.givenOut(); len(given) != 9 {
			t.Errorf("%d attempts after the first has lasted", len(given))
		}
	})
}

// An attempt that is handed back at the operator's request is not the agent's fault.
func TestAgentThatDoesAsItIsToldDoesNotRest(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		a := d.joins(t, "a", "s", 1)
		task := d.task("t", "s")
		for n := range 5 {
			d.steps()
			d.settles(task)
			given := d.assigned()
			if len(given) != 1 {
				t.Fatalf("given %v after %d", given, n)
			}
			d.Observe(task, Brief{Stop: HandBack})
			d.concludes(a, given[0], linkv1.Outcome_OUTCOME_HANDED_BACK)
			d.settles(task)
			d.credit(a, 10)
		}
	})
}
