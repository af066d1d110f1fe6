package task

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
	_ "github.com/swarm-io/swarm-operator/internal/testkit/property" // a fixed seed
)

// A step is an event in a cluster, defined in steps.
type step struct {
	name   string
	target int
	size   int
}

func (s step) String() string { return fmt.Sprintf("%s(%d,%d)", s.name, s.target, s.size) }

// steps are all possible faults, and some regular events.
var steps = map[string]func(w *simulation, s step){
	"submit":   func(w *simulation, s step) { w.submitStep(s) },
	"wait":     func(w *simulation, s step) { w.advance(time.Duration(s.size*s.size) * 10 * time.Millisecond) },
	"waitLong": func(w *simulation, s step) { w.advance(time.Duration(s.size) * 250 * time.Millisecond) },
	"cut":      func(w *simulation, s step) { w.agentOfStep(s).network.partition() },
	"cutSeen":  func(w *simulation, s step) { w.disconnect(w.agentOfStep(s)) },
	"mend":     func(w *simulation, s step) { w.agentOfStep(s).network.heal() },
	"relink":   func(w *simulation, s step) { w.reconnect(w.agentOfStep(s).name) },
	"restart":  func(w *simulation, s step) { w.restartProcess(w.agentOfStep(s).name) },
	"replace":  func(w *simulation, s step) { w.replacePod(w.agentOfStep(s).name) },
	"slow": func(w *simulation, s step) {
		w.agentOfStep(s).network.setLatency(time.Duration(s.size) * 20 * time.Millisecond)
	},
	"fail":      func(w *simulation, s step) { w.faults.setFailures(s.size%4, 0) },
	"loseWrite": func(w *simulation, s step) { w.faults.setFailures(0, s.size%4) },
	"slowWrite": func(w *simulation, s step) { w.setWriteDelay(time.Duration(s.size) * 10 * time.Millisecond) },
	"deaf":      func(w *simulation, _ step) { w.currentLeader().cache.pause() },
	"hear":      func(w *simulation, _ step) { w.currentLeader().cache.resume() },
	"crash":     func(w *simulation, s step) { w.replaceLeader((*leader).crash, s) },
	"depose":    func(w *simulation, s step) { w.replaceLeader((*leader).loseLease, s) },
	"usurp":     func(w *simulation, s step) { w.stealLease(time.Duration(s.size) * 200 * time.Millisecond) },
	"lag":       func(w *simulation, s step) { w.electLagging(s) },
	"catchUp":   func(w *simulation, _ step) { w.catchUp() },
	"strand":    func(w *simulation, s step) { w.delayConnection(w.agentOfStep(s).name) },
	"arrive":    func(w *simulation, _ step) { w.deliverDelayed() },
	"cancel": func(w *simulation, s step) {
		w.store.updateSpec(w.taskOfStep(s), func(spec *v1alpha1.TaskSpec) { spec.Desired = v1alpha1.TaskCancel })
	},
	"suspend":  func(w *simulation, s step) { w.setDesiredUnlessCancelled(w.taskOfStep(s), v1alpha1.TaskSuspend) },
	"resume":   func(w *simulation, s step) { w.setDesiredUnlessCancelled(w.taskOfStep(s), v1alpha1.TaskRun) },
	"delete":   func(w *simulation, s step) { w.store.delete(w.taskOfStep(s)) },
	"recreate": func(w *simulation, s step) { w.recreate(s) },
}

// weightedSteps lists the steps, repeated by frequency.
var weightedSteps = strings.Fields(`submit submit submit submit submit wait wait wait wait waitLong waitLong waitLong waitLong
	cut cutSeen mend mend relink restart replace slow fail loseWrite slowWrite deaf hear hear crash depose usurp lag catchUp strand arrive
	cancel suspend resume delete recreate`)

func scriptGenerator() *rapid.Generator[[]step] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{name: rapid.SampledFrom(weightedSteps).Draw(t, "what"), target: rapid.IntRange(0, 5).Draw(t, "whom"),
			size: rapid.IntRange(0, 50).Draw(t, "size")}
	}), 5, 60)
}

// Whatever happens, no two attempts at one task run at once, epochs grow, and in the end everything is done.
func TestNeverTwoOwnersWhateverHappens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		script := scriptGenerator().Draw(rt, "script")
		var problems []string
		synctest.Test(t, func(*testing.T) { problems = runScript(script) })
		if len(problems) > 0 {
			rt.Fatal(strings.Join(problems, "\n"))
		}
	})
}

// runScript runs a script in a new cluster, heals everything, and returns the problems.
func runScript(script []step) []string { return runScriptWithBudget(script, dispatch.Budget{}) }

// runScriptWithBudget runs a script with a budget for the tasks of the namespace.
func runScriptWithBudget(script []step, budget dispatch.Budget) []string {
	sim := newSimulation()
	defer sim.stop()
	sim.budget = budget
	for n, name := range []string{"a", "b", "c"} {
		sim.startPod(name, 1+n%2)
	}
	sim.workers = 2
	sim.elect().setRules(dispatch.SwarmRules{})
	for _, step := range script {
		steps[step.name](sim, step)
		synctest.Wait()
		if problems := sim.foundProblems(); len(problems) > 0 {
			return append(problems, sim.describe())
		}
	}
	sim.heal()
	sim.advance(10 * time.Minute)
	sim.audit()
	if problems := sim.foundProblems(); len(problems) > 0 {
		return append(problems, sim.describe())
	}
	return nil
}

// heal ends all faults.
func (sim *simulation) heal() {
	sim.faults.setFailures(0, 0)
	sim.deliverDelayed()
	sim.setWriteDelay(time.Millisecond)
	sim.catchUp()
	for _, p := range sim.processes {
		p.network.setLatency(time.Millisecond)
		p.network.heal()
	}
	for _, task := range sim.store.all() {
		sim.setDesiredUnlessCancelled(namespacedName(task.Name), v1alpha1.TaskRun)
	}
}

// audit compares the stored state with that of the agents.
func (sim *simulation) audit() {
	for _, task := range sim.store.all() {
		status := task.Status
		switch {
		case !status.Phase.Final():
			sim.problem("%s is not finished: %+v", task.Name, status)
		case status.Phase == v1alpha1.TaskCompleted:
			var result struct{ Epoch int64 }
			if status.Result == nil || json.Unmarshal(status.Result.Raw, &result) != nil || result.Epoch != status.Epoch {
				sim.problem("%s has epoch %x and a result of epoch %x", task.Name, status.Epoch, result.Epoch)
			}
			if !sim.attempts.hasSucceeded(string(task.UID), status.Epoch) {
				sim.problem("%s was completed with epoch %x, which no process completed", task.Name, status.Epoch)
			}
		}
	}
	sim.auditCounters()
	leader := sim.currentLeader()
	if busy := leader.attemptCount(); busy != 0 {
		sim.problem("the dispatcher counts %d attempts on agents", busy)
	}
	if left := leader.metricValue("swarm_task_unfinished", ""); left != 0 {
		sim.problem("the dispatcher has unfinished tasks: %v", left)
	}
	for _, p := range sim.agents {
		p.do(func() {
			if left := len(p.results); left > 0 {
				sim.problem("%v still has %d results that were not acknowledged", p, left)
			}
		})
	}
	synctest.Wait()
}

// attemptCount returns how many attempts agents hold according to the dispatcher, -1 if it does not know.
func (l *leader) attemptCount() int {
	attempts, known := l.dispatcher.CountAttempts(namespacedName(swarmName), "")
	if !known {
		return -1
	}
	return attempts
}

func (l *attemptLog) hasSucceeded(uid string, epoch int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, run := range l.runs {
		if run.uid == uid && run.epoch == epoch && run.outcome == linkv1.Outcome_OUTCOME_SUCCEEDED.String() {
			return true
		}
	}
	return false
}
