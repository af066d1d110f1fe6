package task

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

const (
	// kubeletDelay is the delay until the status of a pod shows that one of its processes has ended.
	kubeletDelay = 100 * time.Millisecond
	// renewDeadline is how long a leader continues that does not know that its Lease is lost.
	renewDeadline = 8 * time.Second
)

// safetyRules are the safety rules of the protocol outside of the dispatcher. A test disables one to show that the simulation finds the
// problem that it prevents.
type safetyRules struct {
	numberedConnections bool // the link refuses a connection that its process has given up
	waitForPredecessor  bool // a leader that took the Lease early waits until its predecessor has stopped
	currentCaches       bool // a leader waits until its caches hold what the API server holds
}

// newProcessID returns the name of a run of the agent's program.
func (sim *simulation) newProcessID() string {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	sim.processCount++
	return fmt.Sprintf("process-%d", sim.processCount)
}

// recordLinkedProcess records which process of an agent is linked.
func (sim *simulation) recordLinkedProcess(agent string, process dispatch.Process) {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	sim.linkedProcesses[agent] = process
}

// agentObject returns the Agent of a pod.
func (sim *simulation) agentObject(name string) v1alpha1.Agent {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	return v1alpha1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: swarmName}, Type: "worker"},
		Status:     v1alpha1.AgentStatus{LinkedPodUID: sim.linkedProcesses[name].PodUID, LinkedProcess: sim.linkedProcesses[name].ID},
	}
}

// visiblePods lists the pods in the caches of a leader.
func (sim *simulation) visiblePods() []string {
	all := sim.podNames()
	sim.mu.Lock()
	defer sim.mu.Unlock()
	return slices.DeleteFunc(all, func(name string) bool { return sim.hiddenPods[name] })
}

// setHidden hides a new pod from the caches of future leaders.
func (sim *simulation) setHidden(name string, hidden bool) {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	sim.hiddenPods[name] = hidden
}

// delayConnection breaks an agent's stream. The bytes of the next one are delayed: the agent gives it up after a while and opens another.
func (sim *simulation) delayConnection(name string) {
	late := make(chan struct{})
	sim.mu.Lock()
	sim.delayed = append(sim.delayed, late)
	sim.mu.Unlock()
	p := sim.process(name)
	p.do(func() {
		p.delayUntil = late
		p.dropStream()
	})
}

// deliverDelayed delivers the bytes of all delayed connections.
func (sim *simulation) deliverDelayed() {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	for _, late := range sim.delayed {
		close(late)
	}
	sim.delayed = nil
}

// run opens the dispatcher, if that had to wait, and runs it. The stored state is read again by then.
func (l *leader) run(ctx context.Context) {
	for !l.dispatcher.Opened() && ctx.Err() == nil {
		sleep(ctx, 5*time.Millisecond)
		l.openTerm()
	}
	l.dispatcher.Run(ctx)
}

// openTerm begins the term, if the caches are current and no former leader can act any more.
func (l *leader) openTerm() {
	if !l.hasCurrentCaches() {
		return
	}
	if snapshot := l.snapshot(); snapshot.MayOpen(l.aloneFrom, time.Now()) {
		l.dispatcher.Open(snapshot)
	}
}

// hasCurrentCaches reports whether the caches hold the stored state.
func (l *leader) hasCurrentCaches() bool {
	if l.sim.disabledRules.currentCaches {
		return true
	}
	return l.logPosition.Load() == l.sim.store.changeCount() && len(l.sim.visiblePods()) == len(l.sim.podNames())
}

// reachableLeader returns the leader that agents connect to: of two leaders the later one, if its term has begun.
func (sim *simulation) reachableLeader() *leader {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	for _, l := range slices.Backward(sim.leaders) {
		if l.isLeader() && l.dispatcher.Opened() {
			return l
		}
	}
	return sim.leader
}

// stealLease elects a leader after its predecessor's Lease was deleted unnoticed. The predecessor ends when it next reads the Lease, after
// its renew deadline at the latest.
func (sim *simulation) stealLease(noticedAfter time.Duration) {
	former, wait := sim.currentLeader(), renewDeadline
	if sim.disabledRules.waitForPredecessor {
		wait = 0
	}
	sim.contestedUntil = time.Now().Add(wait)
	next := sim.elect()
	next.setRules(dispatch.SwarmRules{})
	sim.wg.Go(func() {
		time.Sleep(min(noticedAfter, renewDeadline))
		former.loseLease()
	})
}
