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
	"github.com/swarm-io/swarm-operator/internal/dispatch"
	_ "github.com/swarm-io/swarm-operator/internal/testkit/property" // a fixed seed
)

// A step is an event in a cluster, defined in steps.
type step struct {
	what string
	whom int
	size int
}

func (s step) String() string { return fmt.Sprintf("%s(%d,%d)", s.what, s.whom, s.size) }

// steps are all possible faults, and some regular events.
var steps = map[string]func(w *cluster, s step){
	"submit":    func(w *cluster, s step) { w.submitOne(s) },
	"wait":      func(w *cluster, s step) { w.pass(time.Duration(s.size*s.size) * 10 * time.Millisecond) },
	"waitLong":  func(w *cluster, s step) { w.pass(time.Duration(s.size) * 250 * time.Millisecond) },
	"cut":       func(w *cluster, s step) { w.someAgent(s).cable.cut() },
	"cutSeen":   func(w *cluster, s step) { w.cutSeen(w.someAgent(s)) },
	"mend":      func(w *cluster, s step) { w.someAgent(s).cable.mend() },
	"relink":    func(w *cluster, s step) { w.relink(w.someAgent(s).name) },
	"restart":   func(w *cluster, s step) { w.restart(w.someAgent(s).name) },
	"replace":   func(w *cluster, s step) { w.replace(w.someAgent(s).name) },
	"slow":      func(w *cluster, s step) { w.someAgent(s).cable.slow(time.Duration(s.size) * 20 * time.Millisecond) },
	"fail":      func(w *cluster, s step) { w.faults.set(s.size%4, 0) },
	"loseWrite": func(w *cluster, s step) { w.faults.set(0, s.size%4) },
	"slowWrite": func(w *cluster, s step) { w.slowWrites(time.Duration(s.size) * 10 * time.Millisecond) },
	"deaf":      func(w *cluster, _ step) { w.current().cache.hold() },
	"hear":      func(w *cluster, _ step) { w.current().cache.release() },
	"crash":     func(w *cluster, s step) { w.succeed((*leader).crash, s) },
	"depose":    func(w *cluster, s step) { w.succeed((*leader).depose, s) },
	"usurp":     func(w *cluster, s step) { w.usurp(time.Duration(s.size) * 200 * time.Millisecond) },
	"lag":       func(w *cluster, s step) { w.electLagging(s) },
	"catchUp":   func(w *cluster, _ step) { w.catchUp() },
	"strand":    func(w *cluster, s step) { w.strand(w.someAgent(s).name) },
	"arrive":    func(w *cluster, _ step) { w.arriveLate() },
	"cancel": func(w *cluster, s step) {
		w.store.desire(w.someTask(s), func(spec *v1alpha1.TaskSpec) { spec.Desired = v1alpha1.TaskCancel })
	},
	"suspend":  func(w *cluster, s step) { w.suspend(w.someTask(s), v1alpha1.TaskSuspend) },
	"resume":   func(w *cluster, s step) { w.suspend(w.someTask(s), v1alpha1.TaskRun) },
	"delete":   func(w *cluster, s step) { w.store.delete(w.someTask(s)) },
	"recreate": func(w *cluster, s step) { w.recreate(s) },
}

// likely lists the steps, repeated by frequency.
var likely = strings.Fields(`submit submit submit submit submit wait wait wait wait waitLong waitLong waitLong waitLong
	cut cutSeen mend mend relink restart replace slow fail loseWrite slowWrite deaf hear hear crash depose usurp lag catchUp strand arrive
	cancel suspend resume delete recreate`)

func scripts() *rapid.Generator[[]step] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{what: rapid.SampledFrom(likely).Draw(t, "what"), whom: rapid.IntRange(0, 5).Draw(t, "whom"), size: rapid.IntRange(0, 50).Draw(t, "size")}
	}), 5, 60)
}

// Whatever happens, no two attempts at one task run at once, epochs grow, and in the end everything is done.
func TestNeverTwoOwnersWhateverHappens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		script := scripts().Draw(rt, "script")
		var problems []string
		synctest.Test(t, func(*testing.T) { problems = play(script) })
		if len(problems) > 0 {
			rt.Fatal(strings.Join(problems, "\n"))
		}
	})
}

// play runs a script in a new cluster, heals everything, and returns the problems.
func play(script []step) []string { return playWith(script, dispatch.Budget{}) }

// playWith plays with a budget for the tasks of the namespace.
func playWith(script []step, budget dispatch.Budget) []string {
	w := newCluster()
	defer w.end()
	w.budget = budget
	for n, name := range []string{"a", "b", "c"} {
		w.pod(name, 1+n%2)
	}
	w.workers = 2
	w.elect().govern(dispatch.SwarmRules{})
	for _, one := range script {
		steps[one.what](w, one)
		synctest.Wait()
		if found := w.found(); len(found) > 0 {
			return append(found, w.describe())
		}
	}
	w.heal()
	w.pass(10 * time.Minute)
	w.audit()
	if found := w.found(); len(found) > 0 {
		return append(found, w.describe())
	}
	return nil
}

// heal ends all faults.
func (w *cluster) heal() {
	w.faults.set(0, 0)
	w.arriveLate()
	w.slowWrites(time.Millisecond)
	w.catchUp()
	for _, p := range w.processes {
		p.cable.slow(time.Millisecond)
		p.cable.mend()
	}
	for _, task := range w.store.all() {
		w.suspend(named(task.Name), v1alpha1.TaskRun)
	}
}

// audit compares the stored state with that of the agents.
func (w *cluster) audit() {
	for _, task := range w.store.all() {
		status := task.Status
		switch {
		case !status.Phase.Final():
			w.problem("%s is not finished: %+v", task.Name, status)
		case status.Phase == v1alpha1.TaskCompleted:
			var result struct{ Epoch int64 }
			if status.Result == nil || json.Unmarshal(status.Result.Raw, &result) != nil || result.Epoch != status.Epoch {
				w.problem("%s has epoch %x and a result of epoch %x", task.Name, status.Epoch, result.Epoch)
			}
			if !w.journal.succeeded(string(task.UID), status.Epoch) {
				w.problem("%s was completed with epoch %x, which no process completed", task.Name, status.Epoch)
			}
		}
	}
	w.auditCounters()
	board := w.current()
	if busy := board.busy(); busy != 0 {
		w.problem("the board thinks that agents hold %d attempts", busy)
	}
	if left := board.count("swarm_task_unfinished", ""); left != 0 {
		w.problem("the board knows %v unfinished tasks", left)
	}
	for _, p := range w.agents {
		p.tell(func() {
			if left := len(p.results); left > 0 {
				w.problem("%v still has %d results that were not acknowledged", p, left)
			}
		})
	}
	synctest.Wait()
}

// busy returns how many attempts agents hold according to the board, -1 if it does not know.
func (l *leader) busy() int {
	attempts, known := l.board.CountAttempts(named(swarmName), "")
	if !known {
		return -1
	}
	return attempts
}

func (j *journal) succeeded(uid string, epoch int64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, run := range j.runs {
		if run.uid == uid && run.epoch == epoch && run.outcome == linkv1.Outcome_OUTCOME_SUCCEEDED.String() {
			return true
		}
	}
	return false
}
