package allocator

import (
	"maps"
	"sync"
	"time"

	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
)

const (
	// reservationTTL is how long a pod may take from its admission until the cache shows it. Other webhooks may take most of that.
	reservationTTL = 30 * time.Second
	// maxTemplates is how many pod templates of a Deployment have remembered numbers. A rollout has two.
	maxTemplates = 8
)

// state is the state of an allocator beyond the cache: recently assigned numbers, and the shortages that the controller found.
type state struct {
	lock                sync.Mutex // held briefly: never while reading
	classStates         map[workloads.Key]split.ClassStates
	numbersByReplicaSet map[replicaSetKey]*replicaSetNumbers
	sweptAt             time.Time
	refusals            *limit.Refusals
}

// replicaSetKey identifies a set of numbers.
type replicaSetKey struct {
	workload workloads.Key
	hash     string
}

// replicaSetNumbers are those of one ReplicaSet. They have their own lock, so that no ReplicaSet waits for another.
type replicaSetNumbers struct {
	*split.Numbers

	lock   sync.Mutex
	usedAt time.Time // the last time; guarded by the lock of the state
}

func newState(refusals *limit.Refusals) state {
	return state{classStates: map[workloads.Key]split.ClassStates{}, numbersByReplicaSet: map[replicaSetKey]*replicaSetNumbers{},
		refusals: refusals}
}

// numbersOf returns those of a ReplicaSet. They are not remembered if its Deployment has too many: anyone who reaches the webhook can
// invent templates.
func (s *state) numbersOf(key replicaSetKey, now time.Time) *replicaSetNumbers {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.sweep(now)
	result := s.numbersByReplicaSet[key]
	if result == nil {
		result = &replicaSetNumbers{Numbers: split.NewNumbers(reservationTTL)}
		if s.countTemplates(key.workload) >= maxTemplates {
			s.refusals.Count(limit.TemplatesPerOwner)
			return result
		}
		s.numbersByReplicaSet[key] = result
	}
	result.usedAt = now
	return result
}

// countTemplates returns how many templates of a workload are remembered.
func (s *state) countTemplates(workload workloads.Key) int {
	count := 0
	for of := range s.numbersByReplicaSet {
		if of.workload == workload {
			count++
		}
	}
	return count
}

// existingNumbers returns the numbers of a ReplicaSet that were used recently, or nil.
func (s *state) existingNumbers(key replicaSetKey) *replicaSetNumbers {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.numbersByReplicaSet[key]
}

// sweep drops ReplicaSets idle for two grace periods: every reservation has become a pod, which records its number, or has expired.
// The second period is for requests still in progress.
func (s *state) sweep(now time.Time) {
	if now.Sub(s.sweptAt) < reservationTTL {
		return
	}
	s.sweptAt = now
	maps.DeleteFunc(s.numbersByReplicaSet, func(_ replicaSetKey, n *replicaSetNumbers) bool { return now.Sub(n.usedAt) > 2*reservationTTL })
}

// SetClassStates sets which classes take pods of a workload, until the next call.
func (s *state) SetClassStates(workload workloads.Key, states split.ClassStates) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.classStates[workload] = states
}

// Forget drops a workload that is gone or no longer managed.
func (s *state) Forget(workload workloads.Key) {
	s.lock.Lock()
	defer s.lock.Unlock()
	delete(s.classStates, workload)
	maps.DeleteFunc(s.numbersByReplicaSet, func(of replicaSetKey, _ *replicaSetNumbers) bool { return of.workload == workload })
}

func (s *state) classStatesOf(workload workloads.Key) split.ClassStates {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.classStates[workload]
}
