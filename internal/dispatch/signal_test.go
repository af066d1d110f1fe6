package dispatch

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func inNS(object string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: object}
}

// signalled returns the delays of the requests for an object since the last call.
func (d *desk) signalled(name string) []time.Duration {
	var delays []time.Duration
	for _, one := range d.signals {
		if one.name == name {
			delays = append(delays, one.delay)
		}
	}
	d.signals = nil
	return delays
}

// A swarm that waits for its last attempt to end is reconciled when that has happened. Otherwise only its numbers have changed.
func TestSwarmIsLookedAtWhenItsLastAttemptEnds(t *testing.T) {
	for _, c := range []struct {
		why   string
		rules Rules
		tasks int
		want  time.Duration
	}{
		{"nothing waits", Rules{}, 1, shownEvery},
		{"the swarm is halted", Rules{Halt: &Wait{}}, 1, 0},
		{"the agent leaves", Rules{Leaving: []string{"a"}}, 1, 0},
		{"another attempt runs", Rules{Halt: &Wait{}}, 2, shownEvery},
	} {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			d.rule("s")
			a := d.joins(t, "a", "s", 2)
			for _, name := range []string{"t", "u"}[:c.tasks] {
				d.task(name, "s")
			}
			d.steps()
			given := d.assigned()
			d.Govern(inNS("s"), c.rules)
			d.signals = nil
			d.concludes(a, given[0], linkv1.Outcome_OUTCOME_SUCCEEDED)
			if delays := d.signalled("s"); !slices.Contains(delays, c.want) || c.want > 0 && slices.Contains(delays, 0) {
				t.Errorf("%s: looked at after %v, want %s", c.why, delays, c.want)
			}
		})
	}
}

func TestEndsAreWrittenAtOnce(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		a, _, attempt := d.given(t)
		d.signals = nil
		d.concludes(a, attempt, linkv1.Outcome_OUTCOME_SUCCEEDED)
		if delays := d.signalled("t"); !slices.Contains(delays, 0) {
			t.Errorf("a result is written after %v", delays)
		}
	})
	atDesk(t, nil, func(t *testing.T, d *desk) {
		a, _, _ := d.given(t)
		d.Left(a)
		d.signals = nil
		time.Sleep(d.lapse())
		d.steps()
		if delays := d.signalled("t"); !slices.Contains(delays, 0) {
			t.Errorf("a loss is written after %v", delays)
		}
	})
}

// Tasks that were blocked because their swarm was unknown are reconciled when it appears.
func TestTasksAreLookedAtWhenTheirSwarmAppears(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		task := d.task("t", "s")
		d.Observe(task, Brief{Blocked: &Wait{Reason: v1alpha1.ReasonSwarmNotFound}})
		d.task("free", "s")
		d.signals = nil
		d.rule("s")
		if delays := d.signalled("t"); !slices.Equal(delays, []time.Duration{0}) {
			t.Errorf("looked at after %v", delays)
		}
		d.rule("s")
		if delays := d.signalled("t"); len(delays) != 0 {
			t.Error("looked at again, and nothing has changed")
		}
	})
}

func TestWaitIsToldWhenItsReasonChanges(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		task := d.task("t", "s")
		d.signals = nil
		d.steps()
		if delays := d.signalled("t"); !slices.Equal(delays, []time.Duration{toldLate}) {
			t.Errorf("told after %v that there is no agent yet", delays)
		}
		if view := d.Observe(task, Brief{}); view.Wait == nil || view.Wait.Reason != v1alpha1.ReasonNoAgentReady {
			t.Errorf("got %+v", view.Wait)
		}
		d.Govern(inNS("s"), Rules{})
		d.steps()
		if delays := d.signalled("t"); len(delays) != 0 {
			t.Errorf("told again after %v", delays)
		}
	})
}

// Run looks again when a leaving agent's time is over.
func TestEndOfPatienceIsDue(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		a, _, _ := d.given(t)
		d.Govern(inNS("s"), Rules{Leaving: []string{"a"}})
		time.Sleep(finishing - time.Second)
		d.heard[a] = time.Now()
		if next := d.step(time.Now()); next != time.Second {
			t.Errorf("looks again after %s", next)
		}
	})
}

func TestChangesWakeTheBoard(t *testing.T) {
	for why, change := range map[string]func(d *desk){
		"new rules":  func(d *desk) { d.rule("s") },
		"a new task": func(d *desk) { d.task("other", "s") },
	} {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			d.rule("s")
			d.steps()
			select {
			case <-d.wake:
			default:
			}
			change(d)
			select {
			case <-d.wake:
			default:
				t.Errorf("%s does not wake it", why)
			}
		})
	}
}

func TestStatusOfATaskRemembersItsLastWrite(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		_, task, _ := d.given(t)
		wrote := d.Observe(task, Brief{}).Wrote
		if !wrote.Equal(time.Now()) {
			t.Errorf("wrote at %s", wrote)
		}
		time.Sleep(time.Second)
		d.Settle(task, nil)
		if again := d.Observe(task, Brief{}).Wrote; !again.Equal(wrote) {
			t.Error("nothing was written")
		}
	})
}
