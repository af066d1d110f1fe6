package task

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
)

// submitOne creates a task of some kind.
func (w *cluster) submitOne(s step) {
	w.tasks++
	name := fmt.Sprintf("t%d", w.tasks%6)
	if w.store.get(named(name)) != nil {
		return
	}
	w.submit(name, workOf(s))
}

// workOf derives work from a number.
func workOf(s step) work {
	does := work{
		takes: time.Duration(s.size*s.size) * 12 * time.Millisecond, // up to 30 s
		stops: time.Duration(s.size%7) * 300 * time.Millisecond, dies: time.Duration(s.size%5) * 249 * time.Millisecond,
		stubborn: s.whom == 1, reports: s.whom == 2,
	}
	switch s.whom {
	case 3:
		does.outcome, does.reason = linkv1.Outcome_OUTCOME_RETRY, "Busy"
	case 4:
		does.outcome, does.reason = linkv1.Outcome_OUTCOME_FAILED, "Broken"
	}
	return does
}

func (w *cluster) someAgent(s step) *process {
	return w.agent([]string{"a", "b", "c"}[s.whom%3])
}

func (w *cluster) someTask(s step) types.NamespacedName { return named(fmt.Sprintf("t%d", s.whom%6)) }

// cutSeen breaks the network, and the operator notices.
func (w *cluster) cutSeen(p *process) {
	p.cable.cut()
	if leads := w.current(); leads != nil {
		leads.wire.endOfAgent(p.name)
	}
}

// succeed ends a leader in some way; the next one follows at once or later.
func (w *cluster) succeed(end func(*leader), s step) {
	end(w.current())
	if s.whom%2 == 0 {
		w.pass(time.Duration(s.size) * 200 * time.Millisecond)
	}
	w.elect().govern(dispatch.SwarmRules{})
}

// electLagging replaces the leader by one whose caches lack the last changes of tasks, and a pod.
func (w *cluster) electLagging(s step) {
	w.current().crash()
	w.hide(w.someAgent(s).name, true)
	w.electBehind(s.size % 4).govern(dispatch.SwarmRules{})
}

// catchUp makes the caches current again.
func (w *cluster) catchUp() {
	for _, name := range w.pods() {
		w.hide(name, false)
	}
	leads := w.current()
	leads.cache.release()
	for _, name := range w.pods() {
		leads.wire.record(name)
	}
}

func (w *cluster) suspend(name types.NamespacedName, desire v1alpha1.TaskDesire) {
	if stored := w.store.get(name); stored != nil && stored.Spec.Desired != v1alpha1.TaskCancel && stored.Spec.Desired != desire {
		w.store.desire(name, func(spec *v1alpha1.TaskSpec) { spec.Desired = desire })
	}
}

func (w *cluster) recreate(s step) {
	name := w.someTask(s)
	if w.store.get(name) != nil {
		w.store.delete(name)
		w.submit(name.Name, workOf(s))
	}
}

func (w *cluster) slowWrites(each time.Duration) {
	w.faults.mu.Lock()
	defer w.faults.mu.Unlock()
	w.faults.each = each
}

func (f *faults) set(before, after int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func (c *cable) slow(latency time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latency = max(latency, time.Millisecond)
}
