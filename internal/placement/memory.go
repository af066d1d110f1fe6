package placement

import (
	"maps"
	"sync"
	"time"

	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

const (
	// grace is how long a pod may take from its admission until the cache shows it. Other webhooks may take most of that.
	grace = 30 * time.Second
	// maxTemplates is how many pod templates of a Deployment have numbers that are remembered. A rollout has two.
	maxTemplates = 8
)

// memory is what a desk knows beside the cache. It holds what was asked about lately and the shortages that somebody judged.
type memory struct {
	lock      sync.Mutex // for moments only: never while something is read
	shortages map[survey.Key]spread.Shortage
	given     map[replicaSet]*numbers
	swept     time.Time
	refusals  *limit.Refusals
}

// replicaSet is what numbers count for.
type replicaSet struct {
	workload survey.Key
	hash     string
}

// numbers are those of one ReplicaSet. Their lock is their own, so that no ReplicaSet waits for another.
type numbers struct {
	*spread.Numbers

	lock  sync.Mutex
	asked time.Time // the last time; guarded by the memory's lock
}

func newMemory(refusals *limit.Refusals) memory {
	return memory{shortages: map[survey.Key]spread.Shortage{}, given: map[replicaSet]*numbers{}, refusals: refusals}
}

// numbers are those of a ReplicaSet. They are not remembered if its Deployment has too many already: anyone who reaches the webhook can make templates up.
func (m *memory) numbers(of replicaSet, now time.Time) *numbers {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.sweep(now)
	found := m.given[of]
	if found == nil {
		found = &numbers{Numbers: spread.NewNumbers(grace)}
		if m.templates(of.workload) >= maxTemplates {
			m.refusals.Count(limit.TemplatesPerOwner)
			return found
		}
		m.given[of] = found
	}
	found.asked = now
	return found
}

// templates returns how many templates of a workload are remembered.
func (m *memory) templates(workload survey.Key) int {
	count := 0
	for of := range m.given {
		if of.workload == workload {
			count++
		}
	}
	return count
}

// known are the numbers of a ReplicaSet that somebody asked about lately, nil when nobody did.
func (m *memory) known(of replicaSet) *numbers {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.given[of]
}

// sweep forgets what nobody has asked about for so long that no number which was given out still waits for its pod: the rest is in the
// pods. Twice the grace leaves time to those who have asked and are not answered yet.
func (m *memory) sweep(now time.Time) {
	if now.Sub(m.swept) < grace {
		return
	}
	m.swept = now
	maps.DeleteFunc(m.given, func(_ replicaSet, n *numbers) bool { return now.Sub(n.asked) > 2*grace })
}

// Judged tells which classes take pods of a workload, until told otherwise.
func (m *memory) Judged(workload survey.Key, shortage spread.Shortage) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.shortages[workload] = shortage
}

// Forget is for workloads that are gone, or no business of ours any more.
func (m *memory) Forget(workload survey.Key) {
	m.lock.Lock()
	defer m.lock.Unlock()
	delete(m.shortages, workload)
	maps.DeleteFunc(m.given, func(of replicaSet, _ *numbers) bool { return of.workload == workload })
}

func (m *memory) shortage(workload survey.Key) spread.Shortage {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.shortages[workload]
}
