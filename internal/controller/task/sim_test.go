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
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
)

const swarmName = "hive"

// A simulation simulates a small cluster in one time bubble: an API server, leaders, agents, and the agents' journal.
type simulation struct {
	lease          time.Duration // as given to agents
	store          *store
	attempts       attemptLog
	faults         faults
	term           atomic.Int64
	cacheLag       atomic.Int64 // of the caches, a time.Duration
	apiReads       atomic.Int32 // of Tasks past the caches
	workers        int
	clock          Clock       // of future leaders
	disabledRules  safetyRules // that are disabled
	budget         dispatch.Budget
	contestedUntil time.Time // until then a leader may act that does not know that it has lost its Lease
	wg             sync.WaitGroup

	mu              sync.Mutex
	leaders         []*leader // all that are still running
	leader          *leader   // elected last
	agents          map[string]*process
	processes       []*process
	podCount        int                         // pods
	processCount    int                         // processes
	linkedProcesses map[string]dispatch.Process // the last linked process by agent, as in Agent status
	hiddenPods      map[string]bool             // pods missing from the caches of the next leader
	delayed         []chan struct{}             // connections whose bytes are in transit
	taskCount       int                         // submitted by a script
	behaviors       map[string]func(attempt int32) behavior
	problems        []string
	events          events
}

func newSimulation() *simulation {
	sim := &simulation{lease: lease, store: newStore(), workers: 1, agents: map[string]*process{},
		behaviors: map[string]func(int32) behavior{}}
	sim.linkedProcesses, sim.hiddenPods = map[string]dispatch.Process{}, map[string]bool{}
	sim.attempts.sim, sim.events.sent = sim, map[string]int{}
	sim.faults.writeDelay = 2 * time.Millisecond
	sim.cacheLag.Store(int64(2 * time.Millisecond))
	return sim
}

// simulate runs a test in a cluster with a leader and the named agents, each with one slot, and reports the problems in the journal.
func simulate(t *testing.T, agents []string, test func(t *testing.T, sim *simulation)) {
	t.Helper()
	simulateWithLease(t, lease, agents, test)
}

// simulateWithLease does the same with another lease than the default of tests.
func simulateWithLease(t *testing.T, lease time.Duration, agents []string, test func(t *testing.T, sim *simulation)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sim := newSimulation()
		sim.lease = lease
		for _, name := range agents {
			sim.startPod(name, 1)
		}
		sim.elect().setRules(dispatch.SwarmRules{})
		sim.advance(time.Second)
		defer func() {
			sim.auditCounters()
			sim.stop()
			for _, problem := range sim.foundProblems() {
				t.Error(problem)
			}
		}()
		test(t, sim)
	})
}

func (sim *simulation) problem(format string, arguments ...any) {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	sim.problems = append(sim.problems, fmt.Sprintf("%s: ", time.Since(startTime).Round(time.Millisecond))+fmt.Sprintf(format, arguments...))
}

// foundProblems returns the problems so far.
func (sim *simulation) foundProblems() []string {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	return slices.Clone(sim.problems)
}

// startTime is when every bubble begins.
var startTime = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// advance advances time, with everything that happens meanwhile.
func (sim *simulation) advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// stop stops everything that runs in the bubble.
func (sim *simulation) stop() {
	for _, l := range slices.Clone(sim.leaders) {
		l.crash()
	}
	sim.deliverDelayed()
	for _, p := range sim.processes {
		p.network.heal()
		p.kill()
	}
	for _, l := range sim.leaders {
		l.stop()
		l.link.close()
	}
	sim.wg.Wait()
}

func (p *process) kill() {
	select {
	case <-p.killed:
	default:
		close(p.killed)
	}
}

func (sim *simulation) setLeader(l *leader) {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	sim.leader, sim.leaders = l, append(sim.leaders, l)
}

func (sim *simulation) unsetLeader(l *leader) {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	if sim.leader == l {
		sim.leader = nil
	}
}

func (sim *simulation) currentLeader() *leader {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	return sim.leader
}

// startPod creates the pod of an agent with a process in it, and its Agent.
func (sim *simulation) startPod(name string, slots int) *process {
	sim.mu.Lock()
	sim.podCount++
	uid := fmt.Sprintf("pod-%d", sim.podCount)
	sim.mu.Unlock()
	return sim.addProcess(sim.startProcess(name, uid, slots, &podNetwork{latency: time.Millisecond}))
}

// restartProcess crashes the process; the next one runs in the same pod. Shortly after, the pod status proves that the first has ended.
func (sim *simulation) restartProcess(name string) {
	old := sim.process(name)
	old.kill()
	synctest.Wait()
	sim.addProcess(sim.startProcess(name, old.podUID, old.slots, old.network))
	sim.wg.Go(func() {
		time.Sleep(kubeletDelay)
		if leader := sim.currentLeader(); leader != nil {
			leader.dispatcher.MarkProcessEnded(namespacedName(name), dispatch.Process{PodUID: old.podUID, ID: old.id})
		}
	})
}

// replacePod creates another pod of the same name while the former process keeps running on an unreachable node.
func (sim *simulation) replacePod(name string) {
	old := sim.process(name)
	old.network.partition()
	old.do(func() { old.tokenExpiry = time.Now().Add(tokenLifetime) })
	sim.startPod(name, old.slots)
}

// reconnect breaks an agent's stream, so that it opens another.
func (sim *simulation) reconnect(name string) {
	p := sim.process(name)
	p.do(p.dropStream)
}

func (sim *simulation) addProcess(p *process) *process {
	sim.mu.Lock()
	sim.agents[p.name] = p
	sim.processes = append(sim.processes, p)
	leader := sim.leader
	sim.mu.Unlock()
	if leader != nil {
		leader.setAgent(p.name)
	}
	return p
}

func (sim *simulation) process(name string) *process {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	return sim.agents[name]
}

func (sim *simulation) podNames() []string {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	return slices.Sorted(maps.Keys(sim.agents))
}

// setBehavior defines the work of a task for all attempts.
func (sim *simulation) setBehavior(task string, work behavior) {
	sim.setBehaviorPerAttempt(task, func(int32) behavior { return work })
}

func (sim *simulation) setBehaviorPerAttempt(task string, work func(attempt int32) behavior) {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	sim.behaviors[task] = work
}

func (sim *simulation) behaviorOf(attempt *linkv1.Attempt) behavior {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	if work := sim.behaviors[attempt.GetTask()]; work != nil {
		return work(attempt.GetAttempt())
	}
	return behavior{duration: time.Second}
}

// submit creates a task that does the work.
func (sim *simulation) submit(name string, work behavior, changes ...func(*v1alpha1.TaskSpec)) *v1alpha1.Task {
	sim.setBehavior(name, work)
	task := &v1alpha1.Task{}
	task.Namespace, task.Name = "default", name
	task.Spec.SwarmRef.Name = swarmName
	for _, change := range changes {
		change(&task.Spec)
	}
	return sim.store.create(task)
}

// status returns the stored status of a task.
func (sim *simulation) status(name string) v1alpha1.TaskStatus {
	if stored := sim.store.get(namespacedName(name)); stored != nil {
		return stored.Status
	}
	return v1alpha1.TaskStatus{}
}

// waitUntil waits for a condition, for at most a minute.
func (sim *simulation) waitUntil(condition func() bool) {
	for range 60_000 / 5 {
		if condition() {
			return
		}
		sim.advance(5 * time.Millisecond)
	}
	sim.problem("waited in vain")
}

func (sim *simulation) describe() string {
	var text strings.Builder
	for _, task := range sim.store.all() {
		fmt.Fprintf(&text, "%s: %s %s epoch=%x\n", task.Name, task.Status.Phase, task.Status.Reason, task.Status.Epoch)
	}
	return text.String() + sim.attempts.String()
}
