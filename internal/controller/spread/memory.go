package spread

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	engine "github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

// memory is the state of a workload between reconciles, of which only one runs at a time. All of it can be lost.
type memory struct {
	of             types.UID
	spot, onDemand time.Time // when a lack of room was last observed
	lastMove       time.Time
	gone           map[types.UID]time.Time // removed pods that the cache may still have
	gated          map[types.UID]time.Time // pods without a node that had a scheduling gate, and when the last gate was removed, zero before
	refused        refusal
	news           []happening       // yet to be reported
	status         string            // last reported
	bound          string            // the pods that cannot be moved, as last reported
	wrote          map[string]string // the annotations at version
	version        string
}

// caughtUp is the time after which the cache must have the removal of a pod.
const caughtUp = time.Minute

// parted returns the pods, with removed ones marked as terminating even if the cache does not have that yet.
func (m *memory) parted(pods []*corev1.Pod, now time.Time) []*corev1.Pod {
	left := make(map[types.UID]time.Time, len(m.gone))
	for n, pod := range pods {
		at, taken := m.gone[pod.UID]
		if !taken || pod.DeletionTimestamp != nil || now.Sub(at) > caughtUp {
			continue
		}
		parted := *pod
		parted.DeletionTimestamp = &metav1.Time{Time: at}
		pods[n], left[pod.UID] = &parted, at
	}
	m.gone = left
	return pods
}

// ungated returns when the last gate of each gated pod was removed: only then does the scheduler look for a node.
func (m *memory) ungated(pods []*corev1.Pod, now time.Time) map[types.UID]time.Time {
	left := map[types.UID]time.Time{}
	for _, pod := range pods {
		since, known := m.gated[pod.UID]
		switch {
		case pod.Spec.NodeName != "":
		case len(pod.Spec.SchedulingGates) > 0:
			left[pod.UID] = time.Time{}
		case known && since.IsZero():
			left[pod.UID] = now
		case known:
			left[pod.UID] = since
		}
	}
	m.gated = left
	return left
}

// annotations returns those of a workload, even if the cache does not have the last write yet.
func (m *memory) annotations(workload survey.Workload) map[string]string {
	order, err := resourceversion.CompareResourceVersion(workload.GetResourceVersion(), m.version)
	if m.version != "" && err == nil && order < 0 {
		return m.wrote
	}
	return workload.GetAnnotations()
}

// memories are the memories of all managed workloads.
type memories struct {
	lock  sync.Mutex
	all   map[survey.Key]*memory
	shown map[survey.Key]engine.Decision
	// When a class without any open node was last known to have no room, so that new workloads need not find out again.
	spot, onDemand time.Time
	lasting        time.Duration // how long that is considered valid
}

func newMemories(settings survey.Settings) *memories {
	return &memories{all: map[survey.Key]*memory{}, shown: map[survey.Key]engine.Decision{}, lasting: 10 * settings.PendingDeadline}
}

// remember returns the memory of a workload, and marks the workload as managed.
func (m *memories) remember(workload survey.Workload) *memory {
	m.lock.Lock()
	defer m.lock.Unlock()
	known := m.all[workload.Key]
	if known == nil || known.of != workload.GetUID() {
		known = &memory{of: workload.GetUID(), gone: map[types.UID]time.Time{}}
		m.all[workload.Key] = known
	}
	return known
}

func (m *memories) forget(workload survey.Key) {
	m.lock.Lock()
	defer m.lock.Unlock()
	delete(m.all, workload)
	delete(m.shown, workload)
}

func (m *memories) knows(workload survey.Key) bool {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.all[workload] != nil
}

// managed returns the managed workloads of a namespace, "" for all.
func (m *memories) managed(namespace string) []survey.Key {
	m.lock.Lock()
	defer m.lock.Unlock()
	var keys []survey.Key
	for key := range m.all {
		if namespace == "" || key.Namespace == namespace {
			keys = append(keys, key)
		}
	}
	return keys
}

// past returns what a decision needs to know of earlier ones.
func (m *memories) past(of *memory, land landscape, now time.Time) survey.History {
	m.lock.Lock()
	defer m.lock.Unlock()
	past := survey.History{
		LastMove: of.lastMove,
		Spot:     survey.ClassHistory{NoCapacitySince: of.spot, NodeAvailableAt: land.spot}, OnDemand: survey.ClassHistory{NoCapacitySince: of.onDemand, NodeAvailableAt: land.onDemand},
	}
	if !land.offers(engine.Spot) && now.Sub(m.spot) < m.lasting {
		past.Spot.NoCapacitySince = later(past.Spot.NoCapacitySince, m.spot)
	}
	if !land.offers(engine.OnDemand) && now.Sub(m.onDemand) < m.lasting {
		past.OnDemand.NoCapacitySince = later(past.OnDemand.NoCapacitySince, m.onDemand)
	}
	return past
}

// learn stores what a decision found out. If a class has no nodes, a pod that waited in vain concerns all workloads.
func (m *memories) learn(of *memory, shortage engine.ClassStates, land landscape) {
	m.lock.Lock()
	defer m.lock.Unlock()
	of.spot, of.onDemand = shortage.Spot.NoCapacitySince, shortage.OnDemand.NoCapacitySince
	if !land.offers(engine.Spot) {
		m.spot = later(m.spot, shortage.Spot.PodOverdueAt)
	}
	if !land.offers(engine.OnDemand) {
		m.onDemand = later(m.onDemand, shortage.OnDemand.PodOverdueAt)
	}
}

// show stores the last decision about a workload while it is managed.
func (m *memories) show(workload survey.Key, decision engine.Decision) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.all[workload] != nil {
		m.shown[workload] = decision
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
