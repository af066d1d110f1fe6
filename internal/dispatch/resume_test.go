package dispatch

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// runs has agent a of swarm s run task t, which is stored.
func (d *desk) runs(t *testing.T) (link.Agent, *v1alpha1.Task, *linkv1.Attempt) {
	t.Helper()
	d.rule("s")
	a := d.joins(t, "a", "s", 1)
	task := d.task("t", "s")
	d.steps()
	attempt := d.assigned()[0]
	d.settles(task)
	return a, task, attempt
}

// resumed returns task t, whose agent has disconnected and has named the attempt when it reconnected in time.
func (d *desk) resumed(t *testing.T) *v1alpha1.Task {
	t.Helper()
	a, task, attempt := d.runs(t)
	d.Observe(task, Brief{Stop: Cancel})
	d.Left(a)
	time.Sleep(5 * time.Second)
	d.sent, d.signals = nil, nil
	d.joins(t, "a", "s", 1, attempt)
	return task
}

func TestAttemptThatIsNamedAgainDoesNotExpire(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		task := d.resumed(t)
		if !slices.Contains(d.signals, signal{"t", 0}) {
			t.Errorf("its status is not looked at: %v", d.signals)
		}
		time.Sleep(2 * d.lapse())
		d.heard[link.Agent{Namespace: "ns", Name: "a"}] = time.Now()
		d.steps()
		if view := d.Observe(task, Brief{Stop: Cancel}); view.Held == nil || view.Ended != nil {
			t.Errorf("got %+v", view)
		}
	})
}

// The agent may have received the cancellation or not: it is repeated on the new stream.
func TestCancellationIsRepeatedAfterTheAgentHasReconnected(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		task := d.resumed(t)
		d.Observe(task, Brief{Stop: Cancel})
		if !slices.ContainsFunc(d.sent, func(message *linkv1.OperatorMessage) bool { return message.GetCancel() != nil }) {
			t.Errorf("sent %v", d.sent)
		}
	})
}

func TestProgressIsWrittenLaterAndOnce(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		a, _, attempt := d.runs(t)
		d.signals = nil
		d.progresses(a, attempt)
		d.progresses(a, attempt)
		if want := []signal{{"t", shownEvery}}; !slices.Equal(d.signals, want) {
			t.Errorf("got %v, want %v", d.signals, want)
		}
	})
}

func TestMessageOfAnUnknownAgentIsIgnored(t *testing.T) {
	atDesk(t, nil, func(_ *testing.T, d *desk) {
		stranger := link.Agent{Namespace: "ns", Name: "stranger"}
		d.credit(stranger, 1)
		d.Left(stranger)
	})
}

// An agent that was linked proves that there was a leader before, even if there is no task.
func TestLedBefore(t *testing.T) {
	linked := v1alpha1.Agent{Status: v1alpha1.AgentStatus{LinkedPodUID: "pod-a"}}
	for want, census := range map[bool]Census{false: {Agents: []v1alpha1.Agent{{}}}, true: {Agents: []v1alpha1.Agent{{}, linked}}} {
		if got := census.Led(); got != want {
			t.Errorf("got %t, want %t", got, want)
		}
	}
}

func TestPodWithoutContainerStatusesIsNotKnownToBeOver(t *testing.T) {
	over := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}
	if allTerminated(over) {
		t.Error("the kubelet has not said how its containers ended")
	}
}

func TestSwarmThatNothingRefersToIsForgotten(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		d.steps()
		if len(d.swarms) != 1 {
			t.Errorf("%d swarms", len(d.swarms))
		}
		d.Dissolve(inNS("s"))
		d.steps()
		if len(d.swarms) != 0 {
			t.Errorf("%d swarms after it was deleted", len(d.swarms))
		}
	})
}
