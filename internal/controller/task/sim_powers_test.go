package task

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
)

const (
	// kubelet is the delay until the status of a pod shows that one of its processes has ended.
	kubelet = 100 * time.Millisecond
	// renewDeadline is how long a leader continues that does not know that its Lease is lost.
	renewDeadline = 8 * time.Second
)

// rules are the safety rules of the protocol outside of the dispatcher. A test disables one to show that the simulation finds the problem
// that it prevents.
type rules struct {
	connectionNumbers bool // the link refuses a connection that its process has given up
	waitingAlone      bool // a leader that took the Lease early waits until its predecessor has stopped
	currentCaches     bool // a leader waits until its caches hold what the API server holds
}

// newProcess returns the name of a run of the agent's program.
func (w *cluster) newProcess() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started++
	return fmt.Sprintf("process-%d", w.started)
}

// link records which process of an agent is linked.
func (w *cluster) link(agent string, process dispatch.Process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.linked[agent] = process
}

// agentObject returns the Agent of a pod.
func (w *cluster) agentObject(name string) v1alpha1.Agent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return v1alpha1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: swarmName}, Type: "worker"},
		Status:     v1alpha1.AgentStatus{LinkedPodUID: w.linked[name].PodUID, LinkedProcess: w.linked[name].ID},
	}
}

// seen lists the pods in the caches of a leader.
func (w *cluster) seen() []string {
	all := w.pods()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(all, func(name string) bool { return w.unseen[name] })
}

// hide hides a new pod from the caches of future leaders.
func (w *cluster) hide(name string, hidden bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unseen[name] = hidden
}

// strand breaks an agent's stream. The bytes of the next one are delayed: the agent gives it up after a while and opens another.
func (w *cluster) strand(name string) {
	late := make(chan struct{})
	w.mu.Lock()
	w.late = append(w.late, late)
	w.mu.Unlock()
	p := w.agent(name)
	p.tell(func() {
		p.stranded = late
		p.drop()
	})
}

// arriveLate delivers the bytes of all delayed connections.
func (w *cluster) arriveLate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, late := range w.late {
		close(late)
	}
	w.late = nil
}

// rule opens the board, if that had to wait, and runs it. The stored state is read again by then.
func (l *leader) rule(ctx context.Context) {
	for !l.board.Opened() && ctx.Err() == nil {
		sleep(ctx, 5*time.Millisecond)
		l.open()
	}
	l.board.Run(ctx)
}

// open begins the term, if the caches are current and no former leader can act any more.
func (l *leader) open() {
	if !l.isCurrent() {
		return
	}
	if census := l.census(); census.MayOpen(l.alone, time.Now()) {
		l.board.Open(census)
	}
}

// isCurrent reports whether the caches hold the stored state.
func (l *leader) isCurrent() bool {
	if l.world.without.currentCaches {
		return true
	}
	return l.position.Load() == l.world.store.changes() && len(l.world.seen()) == len(l.world.pods())
}

// answering returns the leader that agents connect to: of two leaders the later one, if its term has begun.
func (w *cluster) answering() *leader {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range slices.Backward(w.leaders) {
		if l.leads() && l.board.Opened() {
			return l
		}
	}
	return w.leads
}

// usurp elects a leader after its predecessor's Lease was deleted unnoticed. The predecessor ends when it next reads the Lease, after its
// renew deadline at the latest.
func (w *cluster) usurp(looks time.Duration) {
	former, company := w.current(), renewDeadline
	if w.without.waitingAlone {
		company = 0
	}
	w.contested = time.Now().Add(company)
	next := w.elect()
	next.govern(dispatch.SwarmRules{})
	w.runs.Go(func() {
		time.Sleep(min(looks, renewDeadline))
		former.depose()
	})
}
