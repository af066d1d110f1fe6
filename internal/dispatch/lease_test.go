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

var leased = link.Agent{Namespace: "ns", Name: "a"}

// asks reconciles an Agent whose type asks for a lease: it stores what the board wants to have stored, and returns that.
func (d *desk) asks(agent *v1alpha1.Agent, lease time.Duration) time.Duration {
	d.Enrol(agent, lease)
	stored := d.Agent(types.NamespacedName{Namespace: agent.Namespace, Name: agent.Name}).Lease
	agent.Status.LeaseSeconds = int32(stored / time.Second)
	d.Enrol(agent, lease)
	return stored
}

// agentWith returns agent a of swarm s with this lease in its status.
func agentWith(lease int32) *v1alpha1.Agent {
	made := &v1alpha1.Agent{Spec: v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: "s"}, Type: "worker"}}
	made.Namespace, made.Name = "ns", "a"
	made.Status.LinkedPodUID, made.Status.LeaseSeconds = "pod-a", lease
	return made
}

// opens does what the link does with a new stream of agent a.
func (d *desk) opens(t *testing.T, hello *linkv1.Hello) time.Duration {
	t.Helper()
	told := d.Lease(leased, hello)
	d.says(t, leased, "p", hello)
	return told
}

// cutOff does what the link does after Disconnect.
func (d *desk) cutOff(t *testing.T) {
	t.Helper()
	if !slices.Contains(d.disconnected, leased) {
		t.Fatal("the agent was not asked to connect again")
	}
	d.disconnected = nil
	d.Left(leased)
}

func TestLongerLeaseIsStoredBeforeItIsTold(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		agent := agentWith(0)
		d.Enrol(agent, 40*time.Second)
		if told := d.opens(t, &linkv1.Hello{}); told != ShortestLease {
			t.Fatalf("told %s while none is stored", told)
		}
		if stored := d.asks(agent, 40*time.Second); stored != 40*time.Second {
			t.Fatalf("stored %s", stored)
		}
		d.cutOff(t)
		if told := d.opens(t, &linkv1.Hello{}); told != 40*time.Second {
			t.Errorf("told %s", told)
		}
		d.asks(agent, 40*time.Second)
		if len(d.disconnected) != 0 {
			t.Error("an agent that was told its lease was asked to connect again")
		}
	})
}

// The lease was lowered, and the Agent object deleted and recreated, while a former leader's longer lease is sent again.
func TestLeaseInForceIsStoredWithAnObjectThatWasMadeAgain(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.closed()
		again := &linkv1.Hello{Lease: durationpb.New(time.Minute)}
		if told := d.opens(t, again); told != time.Minute {
			t.Fatalf("told %s", told)
		}
		d.Open(Census{})
		agent := agentWith(0)
		if stored := d.asks(agent, 20*time.Second); stored != time.Minute {
			t.Fatalf("stored %s while the agent goes by a minute", stored)
		}
		d.cutOff(t)
		if told := d.opens(t, again); told != 20*time.Second {
			t.Fatalf("told %s", told)
		}
		time.Sleep(lapse(time.Minute) + time.Millisecond)
		d.heard[leased] = time.Now()
		if stored := d.asks(agent, 20*time.Second); stored != 20*time.Second {
			t.Errorf("stored %s after the longer lease is over", stored)
		}
	})
}

// The Welcome with the shorter lease may be lost: until the longer one is over, the longer one is stored, also with assignments.
func TestFormerLeaseCountsUntilItIsOver(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		agent := agentWith(60)
		d.asks(agent, time.Minute)
		d.opens(t, &linkv1.Hello{})
		d.asks(agent, 20*time.Second)
		d.cutOff(t)
		if told := d.opens(t, &linkv1.Hello{Lease: durationpb.New(time.Minute)}); told != 20*time.Second {
			t.Fatalf("told %s", told)
		}
		again := agentWith(0)
		if stored := d.asks(again, 20*time.Second); stored != time.Minute {
			t.Fatalf("stored %s with the object that was made again", stored)
		}
		if got := d.leaseInForce(d.agents[leased]); got != time.Minute {
			t.Errorf("%s is stored with assignments", got)
		}
		time.Sleep(lapse(time.Minute) + time.Millisecond)
		d.heard[leased] = time.Now()
		if stored := d.asks(again, 20*time.Second); stored != 20*time.Second {
			t.Errorf("stored %s after the longer lease is over", stored)
		}
		if got := d.leaseInForce(d.agents[leased]); got != 20*time.Second {
			t.Errorf("%s is stored with assignments after that", got)
		}
	})
}

// An agent may claim any lease. A lease that no leader can have sent does not make its work wait.
func TestClaimedLeasesAreBounded(t *testing.T) {
	for name, claimed := range map[string]*durationpb.Duration{
		"less than nothing": {Seconds: math.MinInt64}, "an hour": durationpb.New(time.Hour), "more than an hour": durationpb.New(2 * time.Hour),
	} {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			d.asks(agentWith(20), 20*time.Second)
			d.opens(t, &linkv1.Hello{Lease: claimed})
			if over, most := d.over(d.agents[leased]), time.Now().Add(lapse(20*time.Second)); over.After(most) {
				t.Errorf("%s: it may go on until %s after that", name, over.Sub(most))
			}
		})
	}
}

// The lease was lowered, and then raised again: a stale cache still shows the long one.
func TestLeaseOfAnObjectThatIsOldIsNotTold(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		former, current := agentWith(50), agentWith(20)
		former.ResourceVersion, current.ResourceVersion = "1", "2"
		d.Enrol(current, 50*time.Second)
		d.Enrol(former, 50*time.Second)
		if told := d.opens(t, &linkv1.Hello{}); told != 20*time.Second {
			t.Errorf("told %s, and 20s is stored", told)
		}
	})
	atDesk(t, nil, func(t *testing.T, d *desk) {
		former, current := agentWith(50), agentWith(20)
		former.ResourceVersion, current.ResourceVersion = "1", "2"
		d.Open(Census{Agents: []v1alpha1.Agent{*current}})
		d.Enrol(former, 50*time.Second)
		if told := d.opens(t, &linkv1.Hello{}); told != 20*time.Second {
			t.Errorf("told %s, and 20s was found by the census", told)
		}
	})
}

func TestStoredLeaseIsLoweredAfterTheLongerOneIsOver(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		agent := agentWith(50)
		d.Enrol(agent, 50*time.Second)
		d.opens(t, &linkv1.Hello{})
		time.Sleep(time.Hour)
		d.heard[leased] = time.Now()
		if stored := d.asks(agent, 20*time.Second); stored != 50*time.Second {
			t.Fatalf("stored %s while the agent goes by a longer one", stored)
		}
		d.cutOff(t)
		if told := d.opens(t, &linkv1.Hello{}); told != 20*time.Second {
			t.Fatalf("told %s", told)
		}
		time.Sleep(lapse(50*time.Second) - time.Millisecond)
		d.heard[leased] = time.Now()
		if stored := d.asks(agent, 20*time.Second); stored != 50*time.Second {
			t.Errorf("stored %s while the longer one may go on, if the Welcome was lost", stored)
		}
		time.Sleep(time.Millisecond)
		if stored := d.asks(agent, 20*time.Second); stored != 20*time.Second {
			t.Errorf("stored %s after the longer one is over", stored)
		}
	})
}

// The agent returns after a long time. It gets the stored lease, and the type asks for a shorter one before the link has
// recorded that the agent was heard, and before it joins.
func TestStoredLeaseIsNotLoweredWhileAnAgentIsBeingTold(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		agent := agentWith(50)
		d.Enrol(agent, 50*time.Second)
		d.heard[leased] = time.Now()
		time.Sleep(time.Hour)
		if told := d.Lease(leased, &linkv1.Hello{}); told != 50*time.Second {
			t.Fatalf("told %s", told)
		}
		if stored := d.asks(agent, 20*time.Second); stored != 50*time.Second {
			t.Fatalf("stored %s while the agent has just been told a longer one", stored)
		}
		d.heard[leased] = time.Now()
		d.Left(leased)
		time.Sleep(lapse(50*time.Second) - time.Millisecond)
		if stored := d.asks(agent, 20*time.Second); stored != 50*time.Second {
			t.Errorf("stored %s while the longer one goes on after the stream", stored)
		}
		time.Sleep(time.Millisecond)
		if stored := d.asks(agent, 20*time.Second); stored != 20*time.Second {
			t.Errorf("stored %s after the longer one is over", stored)
		}
	})
}

// The response to the write that lowers the lease is lost, and the cache lags.
func TestLeaseIsNotToldThatMayHaveBeenLowered(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		agent := agentWith(50)
		agent.ResourceVersion = "1"
		time.Sleep(time.Hour)
		d.Enrol(agent, 20*time.Second)
		if stored := d.Agent(types.NamespacedName{Namespace: "ns", Name: "a"}).Lease; stored != 20*time.Second {
			t.Fatalf("stored %s", stored)
		}
		d.Enrol(agent, 50*time.Second)
		if told := d.opens(t, &linkv1.Hello{}); told != 20*time.Second {
			t.Errorf("told %s, and 20s may be stored", told)
		}
		agent.ResourceVersion = "2"
		d.Enrol(agent, 50*time.Second)
		d.cutOff(t)
		if told := d.opens(t, &linkv1.Hello{}); told != 50*time.Second {
			t.Errorf("told %s, and 50s is stored", told)
		}
	})
}

// A former leader may have sent the stored lease just before this one began.
func TestNewLeaderLowersTheLeaseOfItsPredecessorLate(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		agent := agentWith(50)
		time.Sleep(lapse(50*time.Second) - time.Millisecond)
		if stored := d.asks(agent, 20*time.Second); stored != 50*time.Second {
			t.Errorf("stored %s", stored)
		}
		time.Sleep(time.Millisecond)
		if stored := d.asks(agent, 20*time.Second); stored != 20*time.Second {
			t.Errorf("stored %s", stored)
		}
	})
}

// The configuration of the former leader, or the type, had a longer lease.
func TestGateGoesByTheStoredLease(t *testing.T) {
	for stored, gate := range map[int32]time.Duration{
		50:  lapse(50 * time.Second),
		600: lapse(storeFirst), // what is not stored was not sent
		0:   lapse(15 * time.Second),
	} {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			d.Open(Census{Agents: []v1alpha1.Agent{*agentWith(stored)}})
			d.rule("s")
			b := d.joins(t, "b", "s", 1)
			d.task("t", "s")
			time.Sleep(gate - time.Millisecond)
			d.heard[b] = time.Now()
			d.steps()
			if given := d.assigned(); len(given) != 0 {
				t.Fatalf("lease %d: given out before the gate has ended", stored)
			}
			time.Sleep(time.Millisecond)
			d.steps()
			if given := d.assigned(); len(given) != 1 {
				t.Errorf("lease %d: not given out when the gate has ended", stored)
			}
		})
	}
}

func TestWorkOfAnAgentExpiresByTheLeaseThatItWasTold(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		d.Enrol(agentWith(40), 40*time.Second)
		d.opens(t, &linkv1.Hello{})
		task := d.task("t", "s")
		d.steps()
		d.settles(task)
		d.Left(leased)
		time.Sleep(lapse(40*time.Second) - time.Millisecond)
		d.steps()
		if view := d.Observe(task, Brief{}); view.Held == nil {
			t.Fatal("given up while the agent may work")
		}
		time.Sleep(time.Millisecond)
		d.steps()
		if view := d.Observe(task, Brief{}); view.Ended == nil || !view.Ended.Lost {
			t.Errorf("not given up after the lease: %+v", view)
		}
	})
}

// The Welcome with the shorter lease may be lost: then the agent keeps the longer one that it received before.
func TestWorkExpiresByTheLongerOfTwoLeases(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		d.Enrol(agentWith(50), 50*time.Second)
		d.opens(t, &linkv1.Hello{})
		task := d.task("t", "s")
		d.steps()
		given := d.assigned()
		d.settles(task)
		d.Left(leased)
		d.Enrol(agentWith(50), 20*time.Second)
		d.opens(t, &linkv1.Hello{Running: given})
		d.Left(leased)
		time.Sleep(lapse(50*time.Second) - time.Millisecond)
		d.steps()
		if view := d.Observe(task, Brief{}); view.Held == nil {
			t.Fatal("given up while the agent may work")
		}
	})
}

// The Welcome of a new leader, with a shorter lease, may be lost: then the agent keeps the one that the former leader sent.
func TestWorkExpiresByTheLeaseThatTheFormerLeaderTold(t *testing.T) {
	for name, agents := range map[string][]v1alpha1.Agent{"stored": {*agentWith(50)}, "the object is gone": nil} {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			d.closed()
			d.Open(Census{Agents: agents})
			d.rule("s")
			if agents != nil {
				d.Enrol(&agents[0], 15*time.Second)
			}
			task := d.storedFor("t", "a", 50)
			if told := d.Lease(leased, &linkv1.Hello{}); agents != nil && told != 15*time.Second {
				t.Fatalf("told %s", told)
			}
			running := &linkv1.Attempt{Namespace: "ns", Task: "t", TaskUid: "uid-t", Attempt: 1, Epoch: 1}
			d.says(t, leased, "p", &linkv1.Hello{Running: []*linkv1.Attempt{running}})
			d.Left(leased)
			time.Sleep(lapse(50*time.Second) - time.Millisecond)
			d.steps()
			if view := d.Observe(task, Brief{}); view.Held == nil {
				t.Fatalf("%s: given up while the agent may work", name)
			}
			time.Sleep(time.Millisecond)
			d.steps()
			if view := d.Observe(task, Brief{}); view.Ended == nil {
				t.Errorf("%s: not given up after the lease", name)
			}
		})
	}
}

func TestStoredAssignmentExpiresByTheStoredLease(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.Open(Census{Agents: []v1alpha1.Agent{*agentWith(600)}})
		task := d.storedAs("t", "a")
		time.Sleep(lapse(600*time.Second) - time.Millisecond)
		d.steps()
		if view := d.Observe(task, Brief{}); view.Held == nil {
			t.Fatal("given up while the agent may work")
		}
		time.Sleep(time.Millisecond)
		d.steps()
		if view := d.Observe(task, Brief{}); view.Ended == nil {
			t.Error("not given up after the lease")
		}
	})
}

func TestAgentWithALongLeaseGetsWhatIsStored(t *testing.T) {
	for lease, early := range map[time.Duration]int{storeFirst: 1, storeFirst + time.Second: 0} {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			d.rule("s")
			d.Enrol(agentWith(int32(lease/time.Second)), lease)
			d.opens(t, &linkv1.Hello{})
			task := d.task("t", "s")
			d.steps()
			if given := d.assigned(); len(given) != early {
				t.Fatalf("lease %s: %d sent before it was stored, want %d", lease, len(given), early)
			}
			d.settles(task)
			if given := d.assigned(); len(given) != 1-early {
				t.Errorf("lease %s: %d sent after it was stored", lease, len(given))
			}
		})
	}
}

// What an agent runs under a short lease may not be stored yet. The next leader would not wait for as long as it runs under a long one.
func TestLongLeaseWaitsUntilWhatRunsIsStored(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.rule("s")
		d.Enrol(agentWith(30), 600*time.Second)
		d.opens(t, &linkv1.Hello{})
		task := d.task("t", "s")
		d.steps()
		running := d.assigned()
		d.Left(leased)
		d.Enrol(agentWith(600), 600*time.Second)
		if told := d.opens(t, &linkv1.Hello{Running: running}); told != storeFirst {
			t.Fatalf("told %s while what runs is not stored", told)
		}
		d.settles(task)
		d.Enrol(agentWith(600), 600*time.Second)
		d.cutOff(t)
		if told := d.opens(t, &linkv1.Hello{Running: running}); told != 600*time.Second {
			t.Errorf("told %s after it was stored", told)
		}
	})
}

// closed puts the board back before its census.
func (d *desk) closed() { d.ready = make(chan struct{}) }

func TestLeaseIsToldAgainBeforeTheCensus(t *testing.T) {
	for hello, want := range map[time.Duration]time.Duration{
		0:                          ShortestLease,
		600 * time.Second:          600 * time.Second,
		longestLease:               longestLease,
		longestLease + time.Second: ShortestLease,
		-time.Second:               ShortestLease,
	} {
		atDesk(t, nil, func(t *testing.T, d *desk) {
			d.closed()
			if told := d.Lease(leased, &linkv1.Hello{Lease: durationpb.New(hello)}); told != want {
				t.Errorf("told %s after %s, want %s", told, hello, want)
			}
		})
	}
}

// The stored lease was lowered when the longer one was over, and the agent still names the longer one. The next leader would
// wait by the stored lease.
func TestAgentWithALongerLeaseThanTheStoredOneGetsWhatIsStored(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		agent := agentWith(20)
		agent.Status.LinkedProcess = "p"
		d.closed()
		d.rule("s")
		d.Enrol(agent, 20*time.Second)
		told := d.Lease(leased, &linkv1.Hello{Lease: durationpb.New(storeFirst)})
		d.Open(Census{Agents: []v1alpha1.Agent{*agent}})
		d.says(t, leased, "p", &linkv1.Hello{})
		task := d.task("t", "s")
		d.steps()
		if given := d.assigned(); len(given) > 0 {
			t.Fatalf("sent before it was stored, to an agent that was told %s", told)
		}
		d.writes(task)
		if given := d.assigned(); len(given) != 1 || task.Status.AssignedAgents[0].LeaseSeconds != int32(told/time.Second) {
			t.Errorf("sent %v after %+v was stored, want the lease of %s", given, task.Status.AssignedAgents, told)
		}
	})
}

// The agent was welcomed and answered before the census, and has left before it joined.
func TestGateCountsFromTheLastAnswer(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.closed()
		d.Lease(leased, &linkv1.Hello{Lease: durationpb.New(30 * time.Second)})
		d.Open(Census{Agents: []v1alpha1.Agent{*agentWith(30)}})
		d.rule("s")
		b := d.joins(t, "b", "s", 1)
		d.task("t", "s")
		time.Sleep(5 * time.Second)
		d.heard[leased] = time.Now()
		time.Sleep(lapse(30*time.Second) - time.Millisecond)
		d.heard[b] = time.Now()
		d.steps()
		if given := d.assigned(); len(given) != 0 {
			t.Fatal("given out while the agent may run something that is not stored")
		}
		time.Sleep(time.Millisecond)
		d.steps()
		if given := d.assigned(); len(given) != 1 {
			t.Error("not given out when the gate has ended")
		}
	})
}

func TestStoredAssignmentExpiresAfterTheLastAnswer(t *testing.T) {
	atDesk(t, nil, func(t *testing.T, d *desk) {
		d.closed()
		d.Lease(leased, &linkv1.Hello{Lease: durationpb.New(30 * time.Second)})
		d.Open(Census{Agents: []v1alpha1.Agent{*agentWith(30)}})
		task := d.storedAs("t", "a")
		time.Sleep(5 * time.Second)
		d.heard[leased] = time.Now()
		time.Sleep(lapse(30*time.Second) - time.Millisecond)
		d.steps()
		if view := d.Observe(task, Brief{}); view.Held == nil {
			t.Fatal("given up while the agent may work")
		}
		time.Sleep(time.Millisecond)
		d.steps()
		if view := d.Observe(task, Brief{}); view.Ended == nil {
			t.Error("not given up after the lease")
		}
	})
}

// storedAs returns a task that a former leader has assigned to an agent.
func (d *desk) storedAs(name, agent string) *v1alpha1.Task { return d.storedFor(name, agent, 0) }

// storedFor returns such a task, with the lease that was stored with it.
func (d *desk) storedFor(name, agent string, lease int32) *v1alpha1.Task {
	task := &v1alpha1.Task{}
	task.Namespace, task.Name, task.UID, task.Spec.SwarmRef.Name = "ns", name, types.UID("uid-"+name), "s"
	task.Status.Epoch, task.Status.AssignedAgents = 1, []v1alpha1.AssignedAgent{{Name: agent, Attempt: 1, Epoch: 1, LeaseSeconds: lease}}
	d.stores(task)
	d.Observe(task, Brief{})
	return task
}
