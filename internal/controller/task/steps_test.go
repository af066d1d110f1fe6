package task

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

// submitStep creates a task of some kind.
func (sim *simulation) submitStep(s step) {
	sim.taskCount++
	name := fmt.Sprintf("t%d", sim.taskCount%6)
	if sim.store.get(namespacedName(name)) != nil {
		return
	}
	sim.submit(name, behaviorOfStep(s))
}

// behaviorOfStep derives work from a number.
func behaviorOfStep(s step) behavior {
	work := behavior{
		duration:  time.Duration(s.size*s.size) * 12 * time.Millisecond, // up to 30 s
		stopDelay: time.Duration(s.size%7) * 300 * time.Millisecond, killDelay: time.Duration(s.size%5) * 249 * time.Millisecond,
		ignoresStop: s.target == 1, reportsProgress: s.target == 2,
	}
	switch s.target {
	case 3:
		work.outcome, work.reason = linkv1.Outcome_OUTCOME_RETRY, "Busy"
	case 4:
		work.outcome, work.reason = linkv1.Outcome_OUTCOME_FAILED, "Broken"
	}
	return work
}

func (sim *simulation) agentOfStep(s step) *process {
	return sim.process([]string{"a", "b", "c"}[s.target%3])
}

func (sim *simulation) taskOfStep(s step) types.NamespacedName {
	return namespacedName(fmt.Sprintf("t%d", s.target%6))
}

// disconnect breaks the network, and the operator notices.
func (sim *simulation) disconnect(p *process) {
	p.network.partition()
	if leader := sim.currentLeader(); leader != nil {
		leader.link.endSessionOf(p.name)
	}
}

// replaceLeader ends a leader in some way; the next one follows at once or later.
func (sim *simulation) replaceLeader(end func(*leader), s step) {
	end(sim.currentLeader())
	if s.target%2 == 0 {
		sim.advance(time.Duration(s.size) * 200 * time.Millisecond)
	}
	sim.elect().setRules(dispatch.SwarmRules{})
}

// electLagging replaces the leader by one whose caches lack the last changes of tasks, and a pod.
func (sim *simulation) electLagging(s step) {
	sim.currentLeader().crash()
	sim.setHidden(sim.agentOfStep(s).name, true)
	sim.electWithStaleCache(s.size % 4).setRules(dispatch.SwarmRules{})
}

// catchUp makes the caches current again.
func (sim *simulation) catchUp() {
	for _, name := range sim.podNames() {
		sim.setHidden(name, false)
	}
	leader := sim.currentLeader()
	leader.cache.resume()
	for _, name := range sim.podNames() {
		leader.link.reconcileAgent(name)
	}
}

func (sim *simulation) setDesiredUnlessCancelled(name types.NamespacedName, desire v1alpha1.TaskDesire) {
	if stored := sim.store.get(name); stored != nil && stored.Spec.Desired != v1alpha1.TaskCancel && stored.Spec.Desired != desire {
		sim.store.updateSpec(name, func(spec *v1alpha1.TaskSpec) { spec.Desired = desire })
	}
}

func (sim *simulation) recreate(s step) {
	name := sim.taskOfStep(s)
	if sim.store.get(name) != nil {
		sim.store.delete(name)
		sim.submit(name.Name, behaviorOfStep(s))
	}
}

func (sim *simulation) setWriteDelay(each time.Duration) {
	sim.faults.mu.Lock()
	defer sim.faults.mu.Unlock()
	sim.faults.writeDelay = each
}

func (f *faults) setFailures(before, after int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failBefore, f.failAfter = before, after
}

func (n *podNetwork) setLatency(latency time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.latency = max(latency, time.Millisecond)
}
