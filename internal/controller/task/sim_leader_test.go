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
	"github.com/swarm-io/swarm-operator/internal/dispatch"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/kit"
)

// A leader is one process of the operator: the real board and the real reconciler with their own cache, queue and link.
type leader struct {
	world    *cluster
	board    *dispatch.Dispatcher
	wire     *wire
	cache    *cache
	queue    *queue
	registry *prometheus.Registry
	leading  atomic.Bool
	position atomic.Int64 // of the cache in the log of changes
	stop     context.CancelFunc

	mu    sync.Mutex
	term  int64
	alone time.Time
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
	l.world.term.Store(max(l.world.term.Load(), l.term))
	return l.term
}

func (l *leader) leads() bool { return l.leading.Load() }

// elect starts a new leader from the current stored state. It assigns nothing before govern.
func (w *cluster) elect() *leader { return w.electBehind(0) }

// electBehind starts a leader whose cache lacks the last changes until it is released.
func (w *cluster) electBehind(behind int) *leader {
	ctx, stop := context.WithCancel(context.Background())
	l := &leader{world: w, queue: newQueue(), registry: prometheus.NewRegistry(), stop: stop, term: w.term.Add(1), alone: w.contested}
	l.leading.Store(true)
	l.wire = newWire(l)
	l.board = dispatch.New(dispatch.Config{
		Lease: w.lease, Leadership: l, Tasks: l.queue, Agents: agentSignal{l}, Swarms: silentSignal{}, Metrics: l.registry,
		Budget: w.budget, Refusals: limit.NewRefusals(l.registry),
	})
	l.board.Connect(l.wire)
	l.fill(behind)
	reconciles := &reconciler{client: &stubClient{leader: l}, live: storeReader{store: w.store, reads: &w.reads}, board: l.board, clock: w.clock}
	reconciles.status = kit.NewStatus[*v1alpha1.Task](&kit.Operator{Manager: stubManager{client: reconciles.client, events: &w.events}}, name)
	l.open()
	w.runs.Go(func() { l.rule(ctx) })
	w.runs.Go(func() { l.follow(ctx) })
	for range w.workers {
		w.runs.Go(func() { l.work(ctx, reconciles) })
	}
	w.lead(l)
	return l
}

// fill fills the cache with the stored state, or that of some changes ago.
func (l *leader) fill(behind int) {
	l.cache = &cache{objects: map[types.NamespacedName]*v1alpha1.Task{}}
	l.world.store.mu.Lock()
	defer l.world.store.mu.Unlock()
	known := l.world.store.log[:max(0, len(l.world.store.log)-behind)]
	for _, one := range known {
		l.cache.apply(one)
	}
	for name := range l.cache.objects {
		l.queue.After(name, 0)
	}
	if behind > 0 {
		l.cache.hold()
	}
	l.position.Store(int64(len(known)))
}

func (l *leader) census() dispatch.Snapshot {
	census := dispatch.Snapshot{Tasks: l.cache.all(), HasPredecessor: !l.alone.IsZero()}
	for _, pod := range l.world.seen() {
		census.Agents = append(census.Agents, l.world.agentObject(pod))
		census.Pods = append(census.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: pod, UID: types.UID(l.world.agent(pod).podUID), Labels: map[string]string{v1alpha1.LabelSwarm: swarmName},
		}})
	}
	return census
}

// govern plays the part of the controllers of Swarms and Agents.
func (l *leader) govern(rules dispatch.SwarmRules) {
	for _, pod := range l.world.seen() {
		l.enrol(pod)
	}
	l.board.SetSwarm(named(swarmName), rules)
}

func (l *leader) enrol(agent string) {
	object := l.world.agentObject(agent)
	l.board.SetAgent(&object, 0)
}

// follow is the watch: it passes on what the real predicate accepts.
func (l *leader) follow(ctx context.Context) {
	for ; ; l.position.Add(1) {
		news, more := l.world.store.next(ctx, int(l.position.Load()))
		if !more {
			return
		}
		sleep(ctx, time.Until(news.at.Add(time.Duration(l.world.lag.Load()))))
		l.cache.wait(ctx)
		l.cache.apply(news)
		switch {
		case news.before == nil:
			l.queue.After(named(news.after.Name), 0)
		case news.after == nil:
			l.queue.After(named(news.before.Name), 0)
		case kit.Changes().Update(event.UpdateEvent{ObjectOld: news.before, ObjectNew: news.after}):
			l.queue.After(named(news.after.Name), 0)
		}
	}
}

// work is kit's control loop around the reconciler.
func (l *leader) work(ctx context.Context, reconciles *reconciler) {
	for {
		name, more := l.queue.take(ctx)
		if !more {
			return
		}
		task := l.cache.get(name)
		if task == nil {
			err := reconciles.forget(ctx, name)
			l.queue.done(name, err == nil)
			continue
		}
		result, err := reconciles.Reconcile(ctx, task)
		outcome, delay := verdict(result)
		switch {
		case err != nil || outcome == "requeue":
			l.queue.retry(name)
		case outcome == "requeue_after":
			l.queue.After(name, max(delay, time.Millisecond))
		}
		l.queue.done(name, err == nil && outcome != "requeue")
	}
}

// verdict returns fields that only kit can read otherwise.
func verdict(result kit.Result) (outcome string, delay time.Duration) {
	fields := reflect.ValueOf(result)
	return fields.FieldByName("outcome").String(), time.Duration(fields.FieldByName("delay").Int())
}

// crash ends the process: its streams break at once, and its memory is lost.
func (l *leader) crash() {
	l.leading.Store(false)
	l.stop()
	l.world.unlead(l)
	l.wire.close()
}

// depose takes the Lease from a process that does not notice and continues.
func (l *leader) depose() {
	l.leading.Store(false)
	l.world.unlead(l)
}

// count sums a metric over the labels that match.
func (l *leader) count(metric, label string) float64 {
	families, err := l.registry.Gather()
	if err != nil {
		l.world.problem("gather metrics: %v", err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, one := range family.GetMetric() {
			if label == "" || strings.Contains(one.String(), `"`+label+`"`) {
				sum += one.GetCounter().GetValue() + one.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// An agentSignal triggers a reconcile by the controller of Agents.
type agentSignal struct{ leader *leader }

// After implements dispatch.Trigger.
func (s agentSignal) After(name types.NamespacedName, delay time.Duration) {
	time.AfterFunc(delay, func() { s.leader.wire.record(name.Name) })
}

// A silentSignal replaces a controller that does not exist.
type silentSignal struct{}

// After implements dispatch.Trigger.
func (silentSignal) After(types.NamespacedName, time.Duration) {}

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
