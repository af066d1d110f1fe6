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

// startTask has agent a of swarm s run task t, which is stored.
func (f *fixture) startTask(t *testing.T) (link.Agent, *v1alpha1.Task, *linkv1.Attempt) {
	t.Helper()
	a, task, attempt := f.assignTask(t)
	f.storeStatus(task)
	return a, task, attempt
}

// resumedTask returns task t, whose agent has disconnected and has named the attempt when it reconnected in time.
func (f *fixture) resumedTask(t *testing.T) *v1alpha1.Task {
	t.Helper()
	a, task, attempt := f.startTask(t)
	f.Observe(task, TaskInput{Stop: Cancel})
	f.Left(a)
	time.Sleep(5 * time.Second)
	f.sent, f.triggers = nil, nil
	f.joinAgent(t, "a", "s", 1, attempt)
	return task
}

func TestAttemptThatIsNamedAgainDoesNotExpire(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		task := f.resumedTask(t)
		if !slices.Contains(f.triggers, triggered{"t", 0}) {
			t.Errorf("its status is not looked at: %v", f.triggers)
		}
		time.Sleep(2 * f.leaseTimeout())
		f.heardAt[link.Agent{Namespace: "ns", Name: "a"}] = time.Now()
		f.runStep()
		if view := f.Observe(task, TaskInput{Stop: Cancel}); view.Assignment == nil || view.End != nil {
			t.Errorf("got %+v", view)
		}
	})
}

// The agent may have received the cancellation or not: it is repeated on the new stream.
func TestCancellationIsRepeatedAfterTheAgentHasReconnected(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		task := f.resumedTask(t)
		f.Observe(task, TaskInput{Stop: Cancel})
		if !slices.ContainsFunc(f.sent, func(message *linkv1.OperatorMessage) bool { return message.GetCancel() != nil }) {
			t.Errorf("sent %v", f.sent)
		}
	})
}

func TestProgressIsWrittenLaterAndOnce(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		a, _, attempt := f.startTask(t)
		f.triggers = nil
		f.sendProgress(a, attempt)
		f.sendProgress(a, attempt)
		if want := []triggered{{"t", statusWriteInterval}}; !slices.Equal(f.triggers, want) {
			t.Errorf("got %v, want %v", f.triggers, want)
		}
	})
}

func TestMessageOfAnUnknownAgentIsIgnored(t *testing.T) {
	withFixture(t, nil, func(_ *testing.T, f *fixture) {
		stranger := link.Agent{Namespace: "ns", Name: "stranger"}
		f.grantCredit(stranger, 1)
		f.Left(stranger)
	})
}

// An agent that was linked proves that there was a leader before, even if there is no task.
func TestLedBefore(t *testing.T) {
	linked := v1alpha1.Agent{Status: v1alpha1.AgentStatus{LinkedPodUID: "pod-a"}}
	for want, snapshot := range map[bool]Snapshot{false: {Agents: []v1alpha1.Agent{{}}}, true: {Agents: []v1alpha1.Agent{{}, linked}}} {
		if got := snapshot.HadLeader(); got != want {
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
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.setSwarms("s")
		f.runStep()
		if len(f.swarms) != 1 {
			t.Errorf("%d swarms", len(f.swarms))
		}
		f.RemoveSwarm(namespacedName("s"))
		f.runStep()
		if len(f.swarms) != 0 {
			t.Errorf("%d swarms after it was deleted", len(f.swarms))
		}
	})
}
