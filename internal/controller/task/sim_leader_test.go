package task

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
	"github.com/swarm-io/swarm-operator/kit"
)

// A leader is one process of the operator: the real dispatcher and the real reconciler with their own cache, queue and link.
type leader struct {
	sim         *simulation
	dispatcher  *dispatch.Dispatcher
	link        *linkServer
	cache       *cache
	queue       *queue
	registry    *prometheus.Registry
	isLeading   atomic.Bool
	logPosition atomic.Int64 // of the cache in the log of changes
	stop        context.CancelFunc

	mu        sync.Mutex
	term      int64
	aloneFrom time.Time
}

// Term implements dispatch.Leadership.
func (l *leader) Term() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term
}

// RaiseTerm implements dispatch.Leadership.
func (l *leader) RaiseTerm(above int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = max(l.term, above+1)
	l.sim.term.Store(max(l.sim.term.Load(), l.term))
	return l.term
}

func (l *leader) isLeader() bool { return l.isLeading.Load() }

// elect starts a new leader from the current stored state. It assigns nothing before setRules.
func (sim *simulation) elect() *leader { return sim.electWithStaleCache(0) }

// electWithStaleCache starts a leader whose cache lacks the last changes until it is released.
func (sim *simulation) electWithStaleCache(behind int) *leader {
	ctx, stop := context.WithCancel(context.Background())
	l := &leader{sim: sim, queue: newQueue(), registry: prometheus.NewRegistry(), stop: stop, term: sim.term.Add(1),
		aloneFrom: sim.contestedUntil}
	l.isLeading.Store(true)
	l.link = newLinkServer(l)
	l.dispatcher = dispatch.New(dispatch.Config{
		Lease: sim.lease, Leadership: l, Tasks: l.queue, Agents: agentTrigger{l}, Swarms: noopTrigger{}, Metrics: l.registry,
		Budget: sim.budget, Refusals: limit.NewRefusals(l.registry),
	})
	l.dispatcher.Connect(l.link)
	l.fillCache(behind)
	r := &reconciler{client: &stubClient{leader: l}, apiReader: storeReader{store: sim.store, reads: &sim.apiReads}, dispatcher: l.dispatcher,
		clock: sim.clock}
	r.status = kit.NewStatus[*v1alpha1.Task](&kit.Operator{Manager: stubManager{client: r.client, events: &sim.events}}, name)
	l.openTerm()
	sim.wg.Go(func() { l.run(ctx) })
	sim.wg.Go(func() { l.watch(ctx) })
	for range sim.workers {
		sim.wg.Go(func() { l.runWorker(ctx, r) })
	}
	sim.setLeader(l)
	return l
}

// fillCache fills the cache with the stored state, or that of some changes ago.
func (l *leader) fillCache(behind int) {
	l.cache = &cache{objects: map[types.NamespacedName]*v1alpha1.Task{}}
	l.sim.store.mu.Lock()
	defer l.sim.store.mu.Unlock()
	changes := l.sim.store.log[:max(0, len(l.sim.store.log)-behind)]
	for _, change := range changes {
		l.cache.apply(change)
	}
	for name := range l.cache.objects {
		l.queue.After(name, 0)
	}
	if behind > 0 {
		l.cache.pause()
	}
	l.logPosition.Store(int64(len(changes)))
}

func (l *leader) snapshot() dispatch.Snapshot {
	snapshot := dispatch.Snapshot{Tasks: l.cache.all(), HasPredecessor: !l.aloneFrom.IsZero()}
	for _, pod := range l.sim.visiblePods() {
		snapshot.Agents = append(snapshot.Agents, l.sim.agentObject(pod))
		snapshot.Pods = append(snapshot.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: pod, UID: types.UID(l.sim.process(pod).podUID), Labels: map[string]string{v1alpha1.LabelSwarm: swarmName},
		}})
	}
	return snapshot
}

// setRules plays the part of the controllers of Swarms and Agents.
func (l *leader) setRules(rules dispatch.SwarmRules) {
	for _, pod := range l.sim.visiblePods() {
		l.setAgent(pod)
	}
	l.dispatcher.SetSwarm(namespacedName(swarmName), rules)
}

func (l *leader) setAgent(agent string) {
	object := l.sim.agentObject(agent)
	l.dispatcher.SetAgent(&object, 0)
}

// watch is the watch: it passes on what the real predicate accepts.
func (l *leader) watch(ctx context.Context) {
	for ; ; l.logPosition.Add(1) {
		change, more := l.sim.store.next(ctx, int(l.logPosition.Load()))
		if !more {
			return
		}
		sleep(ctx, time.Until(change.at.Add(time.Duration(l.sim.cacheLag.Load()))))
		l.cache.waitUntilResumed(ctx)
		l.cache.apply(change)
		switch {
		case change.before == nil:
			l.queue.After(namespacedName(change.after.Name), 0)
		case change.after == nil:
			l.queue.After(namespacedName(change.before.Name), 0)
		case kit.Changes().Update(event.UpdateEvent{ObjectOld: change.before, ObjectNew: change.after}):
			l.queue.After(namespacedName(change.after.Name), 0)
		}
	}
}

// runWorker is kit's control loop around the reconciler.
func (l *leader) runWorker(ctx context.Context, r *reconciler) {
	for {
		name, more := l.queue.get(ctx)
		if !more {
			return
		}
		task := l.cache.get(name)
		if task == nil {
			err := r.handleDeleted(ctx, name)
			l.queue.done(name, err == nil)
			continue
		}
		result, err := r.Reconcile(ctx, task)
		outcome, delay := resultFields(result)
		switch {
		case err != nil || outcome == "requeue":
			l.queue.retry(name)
		case outcome == "requeue_after":
			l.queue.After(name, max(delay, time.Millisecond))
		}
		l.queue.done(name, err == nil && outcome != "requeue")
	}
}

// resultFields returns fields that only kit can read otherwise.
func resultFields(result kit.Result) (outcome string, delay time.Duration) {
	fields := reflect.ValueOf(result)
	return fields.FieldByName("outcome").String(), time.Duration(fields.FieldByName("delay").Int())
}

// crash ends the process: its streams break at once, and its memory is lost.
func (l *leader) crash() {
	l.isLeading.Store(false)
	l.stop()
	l.sim.unsetLeader(l)
	l.link.close()
}

// loseLease takes the Lease from a process that does not notice and continues.
func (l *leader) loseLease() {
	l.isLeading.Store(false)
	l.sim.unsetLeader(l)
}

// metricValue sums a metric over the labels that match.
func (l *leader) metricValue(metric, label string) float64 {
	families, err := l.registry.Gather()
	if err != nil {
		l.sim.problem("gather metrics: %v", err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			if label == "" || strings.Contains(m.String(), `"`+label+`"`) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// An agentTrigger triggers a reconcile by the controller of Agents.
type agentTrigger struct{ leader *leader }

// After implements dispatch.Trigger.
func (s agentTrigger) After(name types.NamespacedName, delay time.Duration) {
	time.AfterFunc(delay, func() { s.leader.link.reconcileAgent(name.Name) })
}

// A noopTrigger replaces a controller that does not exist.
type noopTrigger struct{}

// After implements dispatch.Trigger.
func (noopTrigger) After(types.NamespacedName, time.Duration) {}

func sleep(ctx context.Context, wait time.Duration) {
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
