package dispatch

import (
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// assignTask has the dispatcher assign task t of swarm s to agent a, which has one slot.
func (f *fixture) assignTask(t *testing.T) (link.Agent, *v1alpha1.Task, *linkv1.Attempt) {
	t.Helper()
	f.setSwarms("s")
	a := f.joinAgent(t, "a", "s", 1)
	task := f.createTask("t", "s")
	f.runStep()
	return a, task, f.takeAssignments()[0]
}

// createTaskUnderLease has the dispatcher look at task t of swarm s, after agent a connected with these leases: the stored one, in seconds,
// and the one that its type asks for.
func (f *fixture) createTaskUnderLease(t *testing.T, stored int32, lease time.Duration) *v1alpha1.Task {
	t.Helper()
	f.setSwarms("s")
	f.SetAgent(agentWithLease(stored), lease)
	f.openStream(t, &linkv1.Hello{})
	task := f.createTask("t", "s")
	f.runStep()
	return task
}

// requireLease connects agent a, and requires that it receives this lease.
func (f *fixture) requireLease(t *testing.T, hello *linkv1.Hello, want time.Duration, reason string) {
	t.Helper()
	if granted := f.openStream(t, hello); granted != want {
		t.Fatalf("granted a lease of %s, want %s: %s", granted, want, reason)
	}
}

// requireStoredLease reconciles an Agent whose type asks for a lease, and requires that another one is stored.
func (f *fixture) requireStoredLease(t *testing.T, agent *v1alpha1.Agent, lease, want time.Duration, reason string) {
	t.Helper()
	if stored := f.setAgentLease(agent, lease); stored != want {
		t.Fatalf("stored a lease of %s, want %s: %s", stored, want, reason)
	}
}

// requireLostAfter requires that the assignment of a task is kept until just before this time has passed, and lost then.
func (f *fixture) requireLostAfter(t *testing.T, task *v1alpha1.Task, wait time.Duration) {
	t.Helper()
	time.Sleep(wait - time.Millisecond)
	f.runStep()
	if view := f.Observe(task, TaskInput{}); view.Assignment == nil {
		t.Fatalf("lost while the agent may work: %+v", view.End)
	}
	time.Sleep(time.Millisecond)
	f.runStep()
	if view := f.Observe(task, TaskInput{}); view.End == nil || !view.End.Lost {
		t.Fatalf("not lost after the lease: %+v", view)
	}
}

// requireAssignedAfter requires that nothing is assigned until just before this time has passed, and one attempt then. The operator has
// heard from these agents just before.
func (f *fixture) requireAssignedAfter(t *testing.T, wait time.Duration, heard ...link.Agent) {
	t.Helper()
	time.Sleep(wait - time.Millisecond)
	for _, agent := range heard {
		f.heardAt[agent] = time.Now()
	}
	f.runStep()
	if attempts := f.takeAssignments(); len(attempts) != 0 {
		t.Fatalf("assigned before the wait is over: %v", attempts)
	}
	time.Sleep(time.Millisecond)
	f.requireAssigned(t)
}

// requireAssigned requires that the next step assigns one attempt.
func (f *fixture) requireAssigned(t *testing.T) {
	t.Helper()
	f.runStep()
	if attempts := f.takeAssignments(); len(attempts) != 1 {
		t.Fatalf("want one assignment: %v", attempts)
	}
}

// requireNoneAssigned requires that the next step assigns nothing.
func (f *fixture) requireNoneAssigned(t *testing.T) {
	t.Helper()
	f.runStep()
	if attempts := f.takeAssignments(); len(attempts) > 0 {
		t.Fatalf("assigned: %v", attempts)
	}
}

// decideSecondAttempt has the dispatcher decide to give task t of swarm s back to agent a, which has two slots and has handed it back. The
// second attempt is not written yet.
func (f *fixture) decideSecondAttempt(t *testing.T) (link.Agent, *v1alpha1.Task) {
	t.Helper()
	f.setSwarms("s")
	a := f.joinAgent(t, "a", "s", 2)
	task := f.createTask("t", "s")
	f.runStep()
	f.sendResult(a, f.takeAssignments()[0], linkv1.Outcome_OUTCOME_HANDED_BACK)
	f.storeStatus(task)
	f.runStep()
	return a, task
}
