package spread

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	"github.com/swarm-io/swarm-operator/internal/spread/state"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
)

// workloadState is the state of a workload between reconciles, of which only one runs at a time. All of it can be lost.
type workloadState struct {
	uid                          types.UID
	noSpotSince, noOnDemandSince time.Time // when a lack of room was last observed
	lastMove                     time.Time
	removedPods                  map[types.UID]time.Time // removed pods that the cache may still have
	gatedPods                    map[types.UID]time.Time // pods without a node that had a scheduling gate, and since when they have none
	lastRefusal                  refusal
	pendingEvents                []pendingEvent    // yet to be reported
	reportedStatus               string            // last reported
	reportedImmovable            string            // the pods that cannot be moved, as last reported
	patchedAnnotations           map[string]string // the annotations at version
	patchedVersion               string
}

// maxCacheLag is the time after which the cache must have the removal of a pod.
const maxCacheLag = time.Minute

// markRemoved returns the pods, with removed ones marked as terminating even if the cache does not have that yet.
func (s *workloadState) markRemoved(pods []*corev1.Pod, now time.Time) []*corev1.Pod {
	remaining := make(map[types.UID]time.Time, len(s.removedPods))
	for n, pod := range pods {
		at, taken := s.removedPods[pod.UID]
		if !taken || pod.DeletionTimestamp != nil || now.Sub(at) > maxCacheLag {
			continue
		}
		parted := *pod
		parted.DeletionTimestamp = &metav1.Time{Time: at}
		pods[n], remaining[pod.UID] = &parted, at
	}
	s.removedPods = remaining
	return pods
}

// ungatedAt returns when the last gate of each gated pod was removed: only then does the scheduler look for a node.
func (s *workloadState) ungatedAt(pods []*corev1.Pod, now time.Time) map[types.UID]time.Time {
	remaining := map[types.UID]time.Time{}
	for _, pod := range pods {
		since, tracked := s.gatedPods[pod.UID]
		switch {
		case pod.Spec.NodeName != "":
		case len(pod.Spec.SchedulingGates) > 0:
			remaining[pod.UID] = time.Time{}
		case tracked && since.IsZero():
			remaining[pod.UID] = now
		case tracked:
			remaining[pod.UID] = since
		}
	}
	s.gatedPods = remaining
	return remaining
}

// annotations returns those of a workload, even if the cache does not have the last write yet.
func (s *workloadState) annotations(workload workloads.Workload) map[string]string {
	order, err := resourceversion.CompareResourceVersion(workload.GetResourceVersion(), s.patchedVersion)
	if s.patchedVersion != "" && err == nil && order < 0 {
		return s.patchedAnnotations
	}
	return workload.GetAnnotations()
}

// stateStore holds the states of all managed workloads.
type stateStore struct {
	lock       sync.Mutex
	byWorkload map[workloads.Key]*workloadState
	decisions  map[workloads.Key]split.Decision
	// When a class without any open node was last known to have no room, so that new workloads need not find out again.
	noSpotSince, noOnDemandSince time.Time
	validFor                     time.Duration // how long that is considered valid
}

func newStateStore(settings snapshot.Settings) *stateStore {
	return &stateStore{byWorkload: map[workloads.Key]*workloadState{}, decisions: map[workloads.Key]split.Decision{},
		validFor: 10 * settings.PendingDeadline}
}

// getOrCreate returns the state of a workload, and marks the workload as managed.
func (s *stateStore) getOrCreate(workload workloads.Workload) *workloadState {
	s.lock.Lock()
	defer s.lock.Unlock()
	state := s.byWorkload[workload.Key]
	if state == nil || state.uid != workload.GetUID() {
		state = &workloadState{uid: workload.GetUID(), removedPods: map[types.UID]time.Time{}}
		s.byWorkload[workload.Key] = state
	}
	return state
}

func (s *stateStore) forget(workload workloads.Key) {
	s.lock.Lock()
	defer s.lock.Unlock()
	delete(s.byWorkload, workload)
	delete(s.decisions, workload)
}

func (s *stateStore) has(workload workloads.Key) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.byWorkload[workload] != nil
}

// managedKeys returns the managed workloads of a namespace, "" for all.
func (s *stateStore) managedKeys(namespace string) []workloads.Key {
	s.lock.Lock()
	defer s.lock.Unlock()
	var keys []workloads.Key
	for key := range s.byWorkload {
		if namespace == "" || key.Namespace == namespace {
			keys = append(keys, key)
		}
	}
	return keys
}

// history returns what a decision needs to know of earlier ones.
func (s *stateStore) history(state *workloadState, nodes state.Nodes, now time.Time) snapshot.History {
	s.lock.Lock()
	defer s.lock.Unlock()
	history := nodes.History()
	history.LastMove = state.lastMove
	history.Spot.NoCapacitySince, history.OnDemand.NoCapacitySince = state.noSpotSince, state.noOnDemandSince
	if !nodes.HasCapacity(split.Spot) && now.Sub(s.noSpotSince) < s.validFor {
		history.Spot.NoCapacitySince = later(history.Spot.NoCapacitySince, s.noSpotSince)
	}
	if !nodes.HasCapacity(split.OnDemand) && now.Sub(s.noOnDemandSince) < s.validFor {
		history.OnDemand.NoCapacitySince = later(history.OnDemand.NoCapacitySince, s.noOnDemandSince)
	}
	return history
}

// update stores what a decision found out. If a class has no nodes, a pod that could not be scheduled in time concerns all workloads.
func (s *stateStore) update(state *workloadState, classes split.ClassStates, nodes state.Nodes) {
	s.lock.Lock()
	defer s.lock.Unlock()
	state.noSpotSince, state.noOnDemandSince = classes.Spot.NoCapacitySince, classes.OnDemand.NoCapacitySince
	if !nodes.HasCapacity(split.Spot) {
		s.noSpotSince = later(s.noSpotSince, classes.Spot.PodOverdueAt)
	}
	if !nodes.HasCapacity(split.OnDemand) {
		s.noOnDemandSince = later(s.noOnDemandSince, classes.OnDemand.PodOverdueAt)
	}
}

// setDecision stores the last decision about a workload while it is managed.
func (s *stateStore) setDecision(workload workloads.Key, decision split.Decision) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.byWorkload[workload] != nil {
		s.decisions[workload] = decision
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
