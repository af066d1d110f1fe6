package dispatch

import (
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// metricValue returns the value of the series of a metric that has a label with this value.
func (f *fixture) metricValue(t *testing.T, name, label string) float64 {
	t.Helper()
	value, found := f.findMetric(t, name, label)
	if !found {
		t.Fatalf("there is no series %q of %s", label, name)
	}
	return value
}

func (f *fixture) findMetric(t *testing.T, name, label string) (value float64, found bool) {
	t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == name && (label == "" || metric.GetLabel()[0].GetValue() == label) {
				return metric.GetGauge().GetValue() + metric.GetCounter().GetValue(), true
			}
		}
	}
	return 0, false
}

func TestMetricsCountTasksAndAttempts(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		a := f.joinAgent(t, "a", "s", 1)
		for _, name := range []string{"t", "u", "v"} {
			f.createTask(name, "s")
		}
		f.runStep()
		if running, waiting := f.metricValue(t, "swarm_task_unfinished", "running"), f.metricValue(t, "swarm_task_unfinished",
			"waiting"); running != 1 || waiting != 2 {
			t.Errorf("%v run and %v wait", running, waiting)
		}
		f.sendResult(a, f.takeAssignments()[0], linkv1.Outcome_OUTCOME_SUCCEEDED)
		if ended := f.metricValue(t, "swarm_task_attempts_total", "succeeded"); ended != 1 {
			t.Errorf("%v ended well", ended)
		}
	})
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.lostTask(t)
		if lost := f.metricValue(t, "swarm_task_lost_total", ""); lost != 1 {
			t.Errorf("%v are lost", lost)
		}
	})
}

// A new leader continues with the stored counters, once.
func TestCountersOfAnAgentGoOn(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		agent := agentWithLease(0)
		agent.Status.Workload = &v1alpha1.AgentWorkload{Completed: 5, Failed: 2}
		f.SetAgent(agent, 0)
		f.SetAgent(agent, 0)
		if workload := f.Agent(namespacedName("a")).Workload; workload.Completed != 5 || workload.Failed != 2 {
			t.Errorf("got %+v", workload)
		}
	})
}

func TestBlockedTaskShowsWhy(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		blocked := Wait{Reason: v1alpha1.ReasonSwarmNotFound, Message: "there is no swarm"}
		if view := f.Observe(f.createTask("t", "s"), TaskInput{Blocked: &blocked}); view.Wait == nil || *view.Wait != blocked {
			t.Errorf("got %+v", view.Wait)
		}
	})
}

func TestWaitsThatNeedOnlyTimeAreReportedLater(t *testing.T) {
	for reason, want := range map[v1alpha1.Reason]time.Duration{
		v1alpha1.ReasonNoFreeSlot: longReportDelay, v1alpha1.ReasonNoAgentReady: longReportDelay, v1alpha1.ReasonNoAgentOffers: shortReportDelay,
		v1alpha1.ReasonPaused: shortReportDelay,
	} {
		if got := WaitReportDelay(reason); got != want {
			t.Errorf("%s is reported after %s", reason, got)
		}
	}
}

func TestStoredLeaseIsUnchangedBeforeOpen(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.resetReady()
		if stored := f.setAgentLease(agentWithLease(20), 50*time.Second); stored != 20*time.Second {
			t.Errorf("stores %s", stored)
		}
	})
}

// The agent with the fewest assignments comes next, so that equal tasks are distributed evenly.
func TestEqualTasksAreSharedEvenly(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		a, b := f.joinAgent(t, "a", "s", 4), f.joinAgent(t, "b", "s", 4)
		took := map[string]int{}
		for _, name := range []string{"t", "u", "v", "w"} {
			task := f.createTask(name, "s")
			f.runStep()
			attempt := f.takeAssignments()[0]
			for _, agent := range []string{"a", "b"} {
				if len(f.Agent(namespacedName(agent)).Workload.Running) > 0 {
					took[agent]++
				}
			}
			f.sendResult(a, attempt, linkv1.Outcome_OUTCOME_SUCCEEDED)
			f.sendResult(b, attempt, linkv1.Outcome_OUTCOME_SUCCEEDED)
			f.storeStatus(task)
			f.Forget(namespacedName(name))
		}
		if took["a"] != 2 || took["b"] != 2 {
			t.Errorf("took %v", took)
		}
	})
}
