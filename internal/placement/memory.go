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
	// maxTemplates is how many pod templates of a Deployment have remembered numbers. A rollout has two.
	maxTemplates = 8
)

// memory is the state of a desk beyond the cache: recently assigned numbers, and the shortages that the controller found.
type memory struct {
	lock      sync.Mutex // held briefly: never while reading
	shortages map[survey.Key]spread.ClassStates
	given     map[replicaSet]*numbers
	swept     time.Time
	refusals  *limit.Refusals
}

// replicaSet identifies a set of numbers.
type replicaSet struct {
	workload survey.Key
	hash     string
}

// numbers are those of one ReplicaSet. They have their own lock, so that no ReplicaSet waits for another.
type numbers struct {
	*spread.Numbers

	lock  sync.Mutex
	asked time.Time // the last time; guarded by the memory's lock
}

func newMemory(refusals *limit.Refusals) memory {
	return memory{shortages: map[survey.Key]spread.ClassStates{}, given: map[replicaSet]*numbers{}, refusals: refusals}
}

// numbers returns those of a ReplicaSet. They are not remembered if its Deployment has too many: anyone who reaches the webhook can
// invent templates.
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

// known returns the numbers of a ReplicaSet that were used recently, or nil.
func (m *memory) known(of replicaSet) *numbers {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.given[of]
}

// sweep drops ReplicaSets idle for two grace periods: every reservation has become a pod, which records its number, or has expired.
// The second period is for requests still in progress.
func (m *memory) sweep(now time.Time) {
	if now.Sub(m.swept) < grace {
		return
	}
	m.swept = now
	maps.DeleteFunc(m.given, func(_ replicaSet, n *numbers) bool { return now.Sub(n.asked) > 2*grace })
}

// Judged sets which classes take pods of a workload, until the next call.
func (m *memory) Judged(workload survey.Key, shortage spread.ClassStates) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.shortages[workload] = shortage
}

// Forget drops a workload that is gone or no longer managed.
func (m *memory) Forget(workload survey.Key) {
	m.lock.Lock()
	defer m.lock.Unlock()
	delete(m.shortages, workload)
	maps.DeleteFunc(m.given, func(of replicaSet, _ *numbers) bool { return of.workload == workload })
}

func (m *memory) shortage(workload survey.Key) spread.ClassStates {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.shortages[workload]
}
