package dispatch

import (
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// metric returns the value of the series of a metric that has a label with this value.
func (d *desk) metric(t *testing.T, name, label string) float64 {
	t.Helper()
	families, err := d.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, one := range family.GetMetric() {
			if family.GetName() == name && (label == "" || one.GetLabel()[0].GetValue() == label) {
				return one.GetGauge().GetValue() + one.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("there is no series %q of %s", label, name)
	return 0
}

func TestMetricsCountTasksAndAttempts(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		a := d.joins(t, "a", "s", 1)
		for _, name := range []string{"t", "u", "v"} {
			d.task(name, "s")
		}
		d.steps()
		if running, waiting := d.metric(t, "swarm_task_unfinished", "running"), d.metric(t, "swarm_task_unfinished", "waiting"); running != 1 || waiting != 2 {
			t.Errorf("%v run and %v wait", running, waiting)
		}
		d.concludes(a, d.assigned()[0], linkv1.Outcome_OUTCOME_SUCCEEDED)
		if ended := d.metric(t, "swarm_task_attempts_total", "succeeded"); ended != 1 {
			t.Errorf("%v ended well", ended)
		}
	})
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.lost(t)
		if lost := d.metric(t, "swarm_task_lost_total", ""); lost != 1 {
			t.Errorf("%v are lost", lost)
		}
	})
}

// A new leader continues with the stored counters, once.
func TestCountersOfAnAgentGoOn(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		agent := agentWith(0)
		agent.Status.Workload = &v1alpha1.AgentWorkload{Completed: 5, Failed: 2}
		d.Enrol(agent, 0)
		d.Enrol(agent, 0)
		if shown := d.Agent(inNS("a")).Workload; shown.Completed != 5 || shown.Failed != 2 {
			t.Errorf("got %+v", shown)
		}
	})
}

func TestBlockedTaskShowsWhy(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		blocked := Wait{Reason: v1alpha1.ReasonSwarmNotFound, Message: "there is no swarm"}
		if view := d.Observe(d.task("t", "s"), Brief{Blocked: &blocked}); view.Wait == nil || *view.Wait != blocked {
			t.Errorf("got %+v", view.Wait)
		}
	})
}

func TestWaitsThatNeedOnlyTimeAreToldLater(t *testing.T) {
	for reason, want := range map[v1alpha1.Reason]time.Duration{
		v1alpha1.ReasonNoFreeSlot: toldLate, v1alpha1.ReasonNoAgentReady: toldLate, v1alpha1.ReasonNoAgentOffers: toldSoon, v1alpha1.ReasonPaused: toldSoon,
	} {
		if got := ToldAfter(reason); got != want {
			t.Errorf("%s is told after %s", reason, got)
		}
	}
}

func TestLeaseStaysAsItIsStoredBeforeTheCensus(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.closed()
		if stored := d.asks(agentWith(20), 50*time.Second); stored != 20*time.Second {
			t.Errorf("stores %s", stored)
		}
	})
}

// The agent with the fewest assignments comes next, so that equal tasks are shared out evenly.
func TestEqualTasksAreSharedOutOneAfterTheOther(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		a, b := d.joins(t, "a", "s", 4), d.joins(t, "b", "s", 4)
		took := map[string]int{}
		for _, name := range []string{"t", "u", "v", "w"} {
			task := d.task(name, "s")
			d.steps()
			attempt := d.assigned()[0]
			for _, agent := range []string{"a", "b"} {
				if len(d.Agent(inNS(agent)).Workload.Running) > 0 {
					took[agent]++
				}
			}
			d.concludes(a, attempt, linkv1.Outcome_OUTCOME_SUCCEEDED)
			d.concludes(b, attempt, linkv1.Outcome_OUTCOME_SUCCEEDED)
			d.settles(task)
			d.Forget(inNS(name))
		}
		if took["a"] != 2 || took["b"] != 2 {
			t.Errorf("took %v", took)
		}
	})
}
