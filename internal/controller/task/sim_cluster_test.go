package task

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/dispatch"
)

const swarmName = "hive"

// A cluster simulates a small cluster in one time bubble: an API server, leaders, agents, and the agents' journal.
type cluster struct {
	lease     time.Duration // as given to agents
	store     *store
	journal   journal
	faults    faults
	term      atomic.Int64
	lag       atomic.Int64 // of the caches, a time.Duration
	reads     atomic.Int32 // of Tasks past the caches
	workers   int
	clock     Clock // of future leaders
	without   rules // that are disabled
	budget    dispatch.Budget
	contested time.Time // until then a leader may act that does not know that it has lost its Lease
	runs      sync.WaitGroup

	mu        sync.Mutex
	leaders   []*leader // all that are still running
	leads     *leader   // elected last
	agents    map[string]*process
	processes []*process
	made      int                         // pods
	started   int                         // processes
	linked    map[string]dispatch.Process // the last linked process by agent, as in Agent status
	unseen    map[string]bool             // pods missing from the caches of the next leader
	late      []chan struct{}             // connections whose bytes are in transit
	tasks     int                         // submitted by a script
	works     map[string]func(attempt int32) work
	problems  []string
	events    events
}

func newCluster() *cluster {
	w := &cluster{lease: lease, store: newStore(), workers: 1, agents: map[string]*process{}, works: map[string]func(int32) work{}}
	w.linked, w.unseen = map[string]dispatch.Process{}, map[string]bool{}
	w.journal.world, w.events.sent = w, map[string]int{}
	w.faults.each = 2 * time.Millisecond
	w.lag.Store(int64(2 * time.Millisecond))
	return w
}

// inCluster runs a test in a cluster with a leader and the named agents, each with one slot, and reports the problems in the journal.
func inCluster(t *testing.T, agents []string, test func(t *testing.T, w *cluster)) {
	t.Helper()
	inClusterWithLease(t, lease, agents, test)
}

// inClusterWithLease does the same with another lease than the default of tests.
func inClusterWithLease(t *testing.T, lease time.Duration, agents []string, test func(t *testing.T, w *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newCluster()
		w.lease = lease
		for _, name := range agents {
			w.pod(name, 1)
		}
		w.elect().govern(dispatch.SwarmRules{})
		w.pass(time.Second)
		defer func() {
			w.auditCounters()
			w.end()
			for _, problem := range w.found() {
				t.Error(problem)
			}
		}()
		test(t, w)
	})
}

func (w *cluster) problem(format string, arguments ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf("%s: ", time.Since(epochOfTime).Round(time.Millisecond))+fmt.Sprintf(format, arguments...))
}

// found returns the problems so far.
func (w *cluster) found() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.problems)
}

// epochOfTime is when every bubble begins.
var epochOfTime = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// pass advances time, with everything that happens meanwhile.
func (w *cluster) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// end stops everything that runs in the bubble.
func (w *cluster) end() {
	for _, l := range slices.Clone(w.leaders) {
		l.crash()
	}
	w.arriveLate()
	for _, p := range w.processes {
		p.cable.mend()
		p.kill()
	}
	for _, l := range w.leaders {
		l.stop()
		l.wire.close()
	}
	w.runs.Wait()
}

func (p *process) kill() {
	select {
	case <-p.killed:
	default:
		close(p.killed)
	}
}

func (w *cluster) lead(l *leader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leads, w.leaders = l, append(w.leaders, l)
}

func (w *cluster) unlead(l *leader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leads == l {
		w.leads = nil
	}
}

func (w *cluster) current() *leader {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leads
}

// pod creates the pod of an agent with a process in it, and its Agent.
func (w *cluster) pod(name string, slots int) *process {
	w.mu.Lock()
	w.made++
	uid := fmt.Sprintf("pod-%d", w.made)
	w.mu.Unlock()
	return w.host(w.boot(name, uid, slots, &cable{latency: time.Millisecond}))
}

// restart crashes the process; the next one runs in the same pod. Shortly after, the pod status proves that the first has ended.
func (w *cluster) restart(name string) {
	before := w.agent(name)
	before.kill()
	synctest.Wait()
	w.host(w.boot(name, before.podUID, before.slots, before.cable))
	w.runs.Go(func() {
		time.Sleep(kubelet)
		if leads := w.current(); leads != nil {
			leads.board.MarkProcessEnded(named(name), dispatch.Process{PodUID: before.podUID, ID: before.id})
		}
	})
}

// replace creates another pod of the same name while the former process keeps running on an unreachable node.
func (w *cluster) replace(name string) {
	before := w.agent(name)
	before.cable.cut()
	before.tell(func() { before.denied = time.Now().Add(remembered) })
	w.pod(name, before.slots)
}

// relink breaks an agent's stream, so that it opens another.
func (w *cluster) relink(name string) {
	p := w.agent(name)
	p.tell(p.drop)
}

func (w *cluster) host(p *process) *process {
	w.mu.Lock()
	w.agents[p.name] = p
	w.processes = append(w.processes, p)
	leads := w.leads
	w.mu.Unlock()
	if leads != nil {
		leads.enrol(p.name)
	}
	return p
}

func (w *cluster) agent(name string) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.agents[name]
}

func (w *cluster) pods() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.agents))
}

// does defines the work of a task for all attempts.
func (w *cluster) does(task string, what work) { w.doesEach(task, func(int32) work { return what }) }

func (w *cluster) doesEach(task string, what func(attempt int32) work) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.works[task] = what
}

func (w *cluster) workOf(attempt *linkv1.Attempt) work {
	w.mu.Lock()
	defer w.mu.Unlock()
	if what := w.works[attempt.GetTask()]; what != nil {
		return what(attempt.GetAttempt())
	}
	return work{takes: time.Second}
}

// submit creates a task that does the work.
func (w *cluster) submit(name string, what work, changes ...func(*v1alpha1.TaskSpec)) *v1alpha1.Task {
	w.does(name, what)
	made := &v1alpha1.Task{}
	made.Namespace, made.Name = "default", name
	made.Spec.SwarmRef.Name = swarmName
	for _, change := range changes {
		change(&made.Spec)
	}
	return w.store.create(made)
}

// status returns the stored status of a task.
func (w *cluster) status(name string) v1alpha1.TaskStatus {
	if stored := w.store.get(named(name)); stored != nil {
		return stored.Status
	}
	return v1alpha1.TaskStatus{}
}

// until waits for a condition, for at most a minute.
func (w *cluster) until(what func() bool) {
	for range 60_000 / 5 {
		if what() {
			return
		}
		w.pass(5 * time.Millisecond)
	}
	w.problem("waited in vain")
}

func (w *cluster) describe() string {
	var text strings.Builder
	for _, task := range w.store.all() {
		fmt.Fprintf(&text, "%s: %s %s epoch=%x\n", task.Name, task.Status.Phase, task.Status.Reason, task.Status.Epoch)
	}
	return text.String() + w.journal.String()
}
