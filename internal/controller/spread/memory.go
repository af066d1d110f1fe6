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

// memory is what is kept of a workload between reconciles, of which there is never more than one at a time. All of it can be lost.
type memory struct {
	of             types.UID
	spot, onDemand time.Time // when it was last known that there is no room
	lastMove       time.Time
	gone           map[types.UID]time.Time // pods that were taken away, of which the cache may have yet to hear
	gated          map[types.UID]time.Time // pods that were seen behind a gate and have no node yet, with when it was gone, zero while it is not
	refused        refusal
	news           []happening       // that is yet to be told
	status         string            // that was last told
	bound          string            // which pods cannot be moved, as last told
	wrote          map[string]string // the annotations, as of version
	version        string
}

// caughtUp is when the cache has surely heard of a pod that was taken away.
const caughtUp = time.Minute

// parted are the pods with those on their way out that were taken away, also if the cache has yet to hear of it.
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

// ungated is when the last gate of each pod was gone that has waited behind one: only then does anybody look for a node.
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

// annotations are those of a workload, also if the cache has yet to hear of the last write.
func (m *memory) annotations(workload survey.Workload) map[string]string {
	order, err := resourceversion.CompareResourceVersion(workload.GetResourceVersion(), m.version)
	if m.version != "" && err == nil && order < 0 {
		return m.wrote
	}
	return workload.GetAnnotations()
}

// memories are those of all managed workloads.
type memories struct {
	lock  sync.Mutex
	all   map[survey.Key]*memory
	shown map[survey.Key]engine.Decision
	// When it was last known that a class without any open node has no room. Whoever comes new need not find out again.
	spot, onDemand time.Time
	lasting        time.Duration // after which nobody knows
}

func newMemories(settings survey.Settings) *memories {
	return &memories{all: map[survey.Key]*memory{}, shown: map[survey.Key]engine.Decision{}, lasting: 10 * settings.PendingDeadline}
}

// remember is what is known of a workload; the workload counts as managed from now on.
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

// managed are the workloads of a namespace, "" for all.
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

// past is what a decision must know of those before.
func (m *memories) past(of *memory, land landscape, now time.Time) survey.Memory {
	m.lock.Lock()
	defer m.lock.Unlock()
	past := survey.Memory{
		LastMove: of.lastMove,
		Spot:     survey.Past{Failed: of.spot, Returned: land.spot}, OnDemand: survey.Past{Failed: of.onDemand, Returned: land.onDemand},
	}
	if !land.offers(engine.Spot) && now.Sub(m.spot) < m.lasting {
		past.Spot.Failed = later(past.Spot.Failed, m.spot)
	}
	if !land.offers(engine.OnDemand) && now.Sub(m.onDemand) < m.lasting {
		past.OnDemand.Failed = later(past.OnDemand.Failed, m.onDemand)
	}
	return past
}

// learn keeps what a decision found out. What a pod has waited for in vain concerns all workloads, while there is no node of that class.
func (m *memories) learn(of *memory, shortage engine.Shortage, land landscape) {
	m.lock.Lock()
	defer m.lock.Unlock()
	of.spot, of.onDemand = shortage.Spot.Failed, shortage.OnDemand.Failed
	if !land.offers(engine.Spot) {
		m.spot = later(m.spot, shortage.Spot.Missed)
	}
	if !land.offers(engine.OnDemand) {
		m.onDemand = later(m.onDemand, shortage.OnDemand.Missed)
	}
}

// show keeps what was last said of a workload, as long as that is managed.
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
