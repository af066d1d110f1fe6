package dispatch

import (
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

var leasedAgent = link.Agent{Namespace: "ns", Name: "a"}

// setAgentLease reconciles an Agent whose type asks for a lease: it stores what the dispatcher wants to have stored, and returns that.
func (f *fixture) setAgentLease(agent *v1alpha1.Agent, lease time.Duration) time.Duration {
	f.SetAgent(agent, lease)
	stored := f.Agent(types.NamespacedName{Namespace: agent.Namespace, Name: agent.Name}).Lease
	agent.Status.LeaseSeconds = int32(stored / time.Second)
	f.SetAgent(agent, lease)
	return stored
}

// agentWithLease returns agent a of swarm s with this lease in its status.
func agentWithLease(lease int32) *v1alpha1.Agent {
	agent := &v1alpha1.Agent{Spec: v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: "s"}, Type: "worker"}}
	agent.Namespace, agent.Name = "ns", "a"
	agent.Status.LinkedPodUID, agent.Status.LeaseSeconds = "pod-a", lease
	return agent
}

// openStream does what the link does with a new stream of agent a.
func (f *fixture) openStream(t *testing.T, hello *linkv1.Hello) time.Duration {
	t.Helper()
	granted := f.Lease(leasedAgent, hello)
	f.sendHello(t, leasedAgent, "p", hello)
	return granted
}

// disconnectAgent does what the link does after Disconnect.
func (f *fixture) disconnectAgent(t *testing.T) {
	t.Helper()
	if !slices.Contains(f.disconnected, leasedAgent) {
		t.Fatal("the agent was not asked to connect again")
	}
	f.disconnected = nil
	f.Left(leasedAgent)
}

func TestLongerLeaseIsStoredBeforeItIsSent(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		agent := agentWithLease(0)
		f.SetAgent(agent, 40*time.Second)
		f.requireLease(t, &linkv1.Hello{}, ShortestLease, "none is stored")
		f.requireStoredLease(t, agent, 40*time.Second, 40*time.Second, "nothing longer is in force")
		f.disconnectAgent(t)
		f.requireLease(t, &linkv1.Hello{}, 40*time.Second, "it is stored")
		f.setAgentLease(agent, 40*time.Second)
		if len(f.disconnected) != 0 {
			t.Error("an agent that was told its lease was asked to connect again")
		}
	})
}

// The lease was lowered, and the Agent object deleted and recreated, while a former leader's longer lease is sent again.
func TestLeaseInForceIsStoredWithAnObjectThatWasMadeAgain(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.resetReady()
		again := &linkv1.Hello{Lease: durationpb.New(time.Minute)}
		f.requireLease(t, again, time.Minute, "the agent names it")
		f.Open(Snapshot{})
		agent := agentWithLease(0)
		f.requireStoredLease(t, agent, 20*time.Second, time.Minute, "while the agent goes by a minute")
		f.disconnectAgent(t)
		f.requireLease(t, again, 20*time.Second, "it is stored")
		time.Sleep(leaseTimeout(time.Minute) + time.Millisecond)
		f.heardAt[leasedAgent] = time.Now()
		f.requireStoredLease(t, agent, 20*time.Second, 20*time.Second, "after the longer lease is over")
	})
}

// The Welcome with the shorter lease may be lost: until the longer one is over, the longer one is stored, also with assignments.
func TestFormerLeaseCountsUntilItIsOver(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		agent := agentWithLease(60)
		f.setAgentLease(agent, time.Minute)
		f.openStream(t, &linkv1.Hello{})
		f.setAgentLease(agent, 20*time.Second)
		f.disconnectAgent(t)
		f.requireLease(t, &linkv1.Hello{Lease: durationpb.New(time.Minute)}, 20*time.Second, "it is stored")
		again := agentWithLease(0)
		f.requireStoredLease(t, again, 20*time.Second, time.Minute, "with the object that was made again")
		if got := f.maxLeaseInUse(f.agents[leasedAgent]); got != time.Minute {
			t.Errorf("%s is stored with assignments", got)
		}
		time.Sleep(leaseTimeout(time.Minute) + time.Millisecond)
		f.heardAt[leasedAgent] = time.Now()
		f.requireStoredLease(t, again, 20*time.Second, 20*time.Second, "after the longer lease is over")
		if got := f.maxLeaseInUse(f.agents[leasedAgent]); got != 20*time.Second {
			t.Errorf("%s is stored with assignments after that", got)
		}
	})
}

// An agent may claim any lease. A lease that no leader can have sent does not make its work wait.
func TestClaimedLeasesAreBounded(t *testing.T) {
	for name, claimed := range map[string]*durationpb.Duration{
		"less than nothing": {Seconds: math.MinInt64}, "an hour": durationpb.New(time.Hour), "more than an hour": durationpb.New(2 * time.Hour),
	} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			f.setAgentLease(agentWithLease(20), 20*time.Second)
			f.openStream(t, &linkv1.Hello{Lease: claimed})
			if over, most := f.leaseEnd(f.agents[leasedAgent]), time.Now().Add(leaseTimeout(20*time.Second)); over.After(most) {
				t.Errorf("%s: it may go on until %s after that", name, over.Sub(most))
			}
		})
	}
}

// The lease was lowered, and then raised again: a stale cache still shows the long one.
func TestLeaseOfAnOldObjectIsNotSent(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		former, current := agentWithLease(50), agentWithLease(20)
		former.ResourceVersion, current.ResourceVersion = "1", "2"
		f.SetAgent(current, 50*time.Second)
		f.SetAgent(former, 50*time.Second)
		f.requireLease(t, &linkv1.Hello{}, 20*time.Second, "it is stored")
	})
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		former, current := agentWithLease(50), agentWithLease(20)
		former.ResourceVersion, current.ResourceVersion = "1", "2"
		f.Open(Snapshot{Agents: []v1alpha1.Agent{*current}})
		f.SetAgent(former, 50*time.Second)
		f.requireLease(t, &linkv1.Hello{}, 20*time.Second, "it was found by the census")
	})
}

func TestStoredLeaseIsLoweredAfterTheLongerOneIsOver(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		agent := agentWithLease(50)
		f.SetAgent(agent, 50*time.Second)
		f.openStream(t, &linkv1.Hello{})
		time.Sleep(time.Hour)
		f.heardAt[leasedAgent] = time.Now()
		f.requireStoredLease(t, agent, 20*time.Second, 50*time.Second, "while the agent goes by a longer one")
		f.disconnectAgent(t)
		f.requireLease(t, &linkv1.Hello{}, 20*time.Second, "it is stored")
		time.Sleep(leaseTimeout(50*time.Second) - time.Millisecond)
		f.heardAt[leasedAgent] = time.Now()
		f.requireStoredLease(t, agent, 20*time.Second, 50*time.Second, "while the longer one may go on, if the Welcome was lost")
		time.Sleep(time.Millisecond)
		f.requireStoredLease(t, agent, 20*time.Second, 20*time.Second, "after the longer one is over")
	})
}

// The agent returns after a long time. It gets the stored lease, and the type asks for a shorter one before the link has
// recorded that the agent was heard, and before it joins.
func TestStoredLeaseIsNotLoweredWhileALeaseIsBeingSent(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		agent := agentWithLease(50)
		f.SetAgent(agent, 50*time.Second)
		f.heardAt[leasedAgent] = time.Now()
		time.Sleep(time.Hour)
		if granted := f.Lease(leasedAgent, &linkv1.Hello{}); granted != 50*time.Second {
			t.Fatalf("told %s", granted)
		}
		f.requireStoredLease(t, agent, 20*time.Second, 50*time.Second, "while the agent has just been told a longer one")
		f.heardAt[leasedAgent] = time.Now()
		f.Left(leasedAgent)
		time.Sleep(leaseTimeout(50*time.Second) - time.Millisecond)
		f.requireStoredLease(t, agent, 20*time.Second, 50*time.Second, "while the longer one goes on after the stream")
		time.Sleep(time.Millisecond)
		f.requireStoredLease(t, agent, 20*time.Second, 20*time.Second, "after the longer one is over")
	})
}

// The response to the write that lowers the lease is lost, and the cache lags.
func TestLeaseThatMayHaveBeenLoweredIsNotSent(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		agent := agentWithLease(50)
		agent.ResourceVersion = "1"
		time.Sleep(time.Hour)
		f.SetAgent(agent, 20*time.Second)
		if stored := f.Agent(types.NamespacedName{Namespace: "ns", Name: "a"}).Lease; stored != 20*time.Second {
			t.Fatalf("stored %s", stored)
		}
		f.SetAgent(agent, 50*time.Second)
		f.requireLease(t, &linkv1.Hello{}, 20*time.Second, "it may be stored")
		agent.ResourceVersion = "2"
		f.SetAgent(agent, 50*time.Second)
		f.disconnectAgent(t)
		f.requireLease(t, &linkv1.Hello{}, 50*time.Second, "it is stored")
	})
}

// A former leader may have sent the stored lease just before this one began.
func TestNewLeaderLowersTheLeaseOfItsPredecessorLate(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		agent := agentWithLease(50)
		time.Sleep(leaseTimeout(50*time.Second) - time.Millisecond)
		f.requireStoredLease(t, agent, 20*time.Second, 50*time.Second, "a former leader may have sent it just before")
		time.Sleep(time.Millisecond)
		f.requireStoredLease(t, agent, 20*time.Second, 20*time.Second, "after the longer one is over")
	})
}

// The configuration of the former leader, or the type, had a longer lease.
func TestRecoveryWaitsForTheStoredLease(t *testing.T) {
	for stored, gate := range map[int32]time.Duration{
		50:  leaseTimeout(50 * time.Second),
		600: leaseTimeout(maxUnstoredLease), // what is not stored was not sent
		0:   leaseTimeout(15 * time.Second),
	} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			t.Log("stored lease in seconds:", stored)
			f.Open(Snapshot{Agents: []v1alpha1.Agent{*agentWithLease(stored)}})
			f.setSwarms("s")
			b := f.joinAgent(t, "b", "s", 1)
			f.createTask("t", "s")
			f.requireAssignedAfter(t, gate, b)
		})
	}
}

func TestWorkExpiresByTheLeaseThatWasSent(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		task := f.createTaskUnderLease(t, 40, 40*time.Second)
		f.storeStatus(task)
		f.Left(leasedAgent)
		f.requireLostAfter(t, task, leaseTimeout(40*time.Second))
	})
}

// The Welcome with the shorter lease may be lost: then the agent keeps the longer one that it received before.
func TestWorkExpiresByTheLongerOfTwoLeases(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		task := f.createTaskUnderLease(t, 50, 50*time.Second)
		attempts := f.takeAssignments()
		f.storeStatus(task)
		f.Left(leasedAgent)
		f.SetAgent(agentWithLease(50), 20*time.Second)
		f.openStream(t, &linkv1.Hello{Running: attempts})
		f.Left(leasedAgent)
		time.Sleep(leaseTimeout(50*time.Second) - time.Millisecond)
		f.runStep()
		if view := f.Observe(task, TaskInput{}); view.Assignment == nil {
			t.Fatal("given up while the agent may work")
		}
	})
}

// The Welcome of a new leader, with a shorter lease, may be lost: then the agent keeps the one that the former leader sent.
func TestWorkExpiresByTheLeaseThatTheFormerLeaderSent(t *testing.T) {
	for name, agents := range map[string][]v1alpha1.Agent{"stored": {*agentWithLease(50)}, "the object is gone": nil} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			t.Log(name)
			f.resetReady()
			f.Open(Snapshot{Agents: agents})
			f.setSwarms("s")
			if agents != nil {
				f.SetAgent(&agents[0], 15*time.Second)
			}
			task := f.assignedTaskWithLease("t", "a", 50)
			if granted := f.Lease(leasedAgent, &linkv1.Hello{}); agents != nil && granted != 15*time.Second {
				t.Fatalf("told %s", granted)
			}
			running := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 1}
			f.sendHello(t, leasedAgent, "p", &linkv1.Hello{Running: []*linkv1.Attempt{running}})
			f.Left(leasedAgent)
			f.requireLostAfter(t, task, leaseTimeout(50*time.Second))
		})
	}
}

func TestStoredAssignmentExpiresByTheStoredLease(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.Open(Snapshot{Agents: []v1alpha1.Agent{*agentWithLease(600)}})
		task := f.assignedTask("t", "a")
		f.requireLostAfter(t, task, leaseTimeout(600*time.Second))
	})
}

func TestAgentWithALongLeaseGetsWhatIsStored(t *testing.T) {
	for lease, early := range map[time.Duration]int{maxUnstoredLease: 1, maxUnstoredLease + time.Second: 0} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			task := f.createTaskUnderLease(t, int32(lease/time.Second), lease)
			if attempts := f.takeAssignments(); len(attempts) != early {
				t.Fatalf("lease %s: %d sent before it was stored, want %d", lease, len(attempts), early)
			}
			f.storeStatus(task)
			if attempts := f.takeAssignments(); len(attempts) != 1-early {
				t.Errorf("lease %s: %d sent after it was stored", lease, len(attempts))
			}
		})
	}
}

// What an agent runs under a short lease may not be stored yet. The next leader would not wait for as long as it runs under a long one.
func TestLongLeaseWaitsUntilWhatRunsIsStored(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		task := f.createTaskUnderLease(t, 30, 600*time.Second)
		running := f.takeAssignments()
		f.Left(leasedAgent)
		f.SetAgent(agentWithLease(600), 600*time.Second)
		f.requireLease(t, &linkv1.Hello{Running: running}, maxUnstoredLease, "while what runs is not stored")
		f.storeStatus(task)
		f.SetAgent(agentWithLease(600), 600*time.Second)
		f.disconnectAgent(t)
		f.requireLease(t, &linkv1.Hello{Running: running}, 600*time.Second, "after it was stored")
	})
}

// resetReady puts the dispatcher back to before it has read the snapshot.
func (f *fixture) resetReady() { f.ready = make(chan struct{}) }

func TestLeaseIsSentAgainBeforeOpen(t *testing.T) {
	for hello, want := range map[time.Duration]time.Duration{
		0:                          ShortestLease,
		600 * time.Second:          600 * time.Second,
		longestLease:               longestLease,
		longestLease + time.Second: ShortestLease,
		-time.Second:               ShortestLease,
	} {
		withFixture(t, nil, func(t *testing.T, f *fixture) {
			f.resetReady()
			if granted := f.Lease(leasedAgent, &linkv1.Hello{Lease: durationpb.New(hello)}); granted != want {
				t.Errorf("told %s after %s, want %s", granted, hello, want)
			}
		})
	}
}

// The stored lease was lowered when the longer one was over, and the agent still names the longer one. The next leader would
// wait by the stored lease.
func TestAgentWithALongerLeaseThanTheStoredOneGetsWhatIsStored(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		agent := agentWithLease(20)
		agent.Status.LinkedProcess = "p"
		f.resetReady()
		f.setSwarms("s")
		f.SetAgent(agent, 20*time.Second)
		granted := f.Lease(leasedAgent, &linkv1.Hello{Lease: durationpb.New(maxUnstoredLease)})
		f.Open(Snapshot{Agents: []v1alpha1.Agent{*agent}})
		f.sendHello(t, leasedAgent, "p", &linkv1.Hello{})
		task := f.createTask("t", "s")
		f.runStep()
		if attempts := f.takeAssignments(); len(attempts) > 0 {
			t.Fatalf("sent before it was stored, to an agent that was told %s", granted)
		}
		f.storeAssignment(task)
		if attempts := f.takeAssignments(); len(attempts) != 1 || task.Status.AssignedAgents[0].LeaseSeconds != int32(granted/time.Second) {
			t.Errorf("sent %v after %+v was stored, want the lease of %s", attempts, task.Status.AssignedAgents, granted)
		}
	})
}

// The agent was welcomed and its heartbeats were answered before the snapshot, and it left before it joined.
func TestRecoveryCountsFromTheLastHeartbeat(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.resetReady()
		f.Lease(leasedAgent, &linkv1.Hello{Lease: durationpb.New(30 * time.Second)})
		f.Open(Snapshot{Agents: []v1alpha1.Agent{*agentWithLease(30)}})
		f.setSwarms("s")
		b := f.joinAgent(t, "b", "s", 1)
		f.createTask("t", "s")
		time.Sleep(5 * time.Second)
		f.heardAt[leasedAgent] = time.Now()
		f.requireAssignedAfter(t, leaseTimeout(30*time.Second), b)
	})
}

func TestStoredAssignmentExpiresAfterTheLastAnswer(t *testing.T) {
	withFixture(t, nil, func(t *testing.T, f *fixture) {
		f.resetReady()
		f.Lease(leasedAgent, &linkv1.Hello{Lease: durationpb.New(30 * time.Second)})
		f.Open(Snapshot{Agents: []v1alpha1.Agent{*agentWithLease(30)}})
		task := f.assignedTask("t", "a")
		time.Sleep(5 * time.Second)
		f.heardAt[leasedAgent] = time.Now()
		f.requireLostAfter(t, task, leaseTimeout(30*time.Second))
	})
}

// assignedTask returns a task that a former leader has assigned to an agent.
func (f *fixture) assignedTask(name, agent string) *v1alpha1.Task {
	return f.assignedTaskWithLease(name, agent, 0)
}

// assignedTaskWithLease returns such a task, with the lease that was stored with it.
func (f *fixture) assignedTaskWithLease(name, agent string, lease int32) *v1alpha1.Task {
	task := &v1alpha1.Task{}
	task.Namespace, task.Name, task.UID, task.Spec.SwarmRef.Name = "ns", name, types.UID("uid-"+name), "s"
	task.Status.Epoch, task.Status.AssignedAgents = 1, []v1alpha1.AssignedAgent{{Name: agent, Attempt: 1, Epoch: 1, LeaseSeconds: lease}}
	f.bumpVersion(task)
	f.Observe(task, TaskInput{})
	return task
}
