package workerpool

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
)

// localState is the state of a pool between reconciles: indexes that are expensive to rebuild, writes that the cache does not have yet, and
// since when the pool waits for workers. All of it can be lost at any time.
type localState struct {
	poolUID           types.UID
	jobs              plan.Jobs
	newestRevision    *plan.StoredRevision       // the newest revision
	followsNewest     bool                       // the pool follows it, or creates one; others are not kept, since users may have made them
	holdsRevisionLock bool                       // permission to hold long revisions
	configMaps        map[string]*plan.ConfigMap // by name, as last read or written
	ensuredTerm       int64                      // in which the leader last took over all ConfigMaps; 0 for none
	clocks            plan.Clocks
	convergingSince   time.Time      // when the pool last stopped being converged
	events            []pendingEvent // yet to be reported
}

// pendingEvent is something that happened, and the object it concerns.
type pendingEvent struct {
	reason, message string
	regarding       *corev1.ObjectReference
	warning         bool
}

func newLocalState(poolUID types.UID) *localState {
	return &localState{poolUID: poolUID, configMaps: map[string]*plan.ConfigMap{}}
}

// follow takes over what a plan has found out.
func (s *localState) follow(next plan.Plan) {
	s.clocks, s.followsNewest = next.Clocks, next.FollowsNewest
	if s.newestRevision != nil && next.Followed != nil {
		s.newestRevision.Index = next.Followed
	}
}

// compactJobLimit is the number of jobs up to which reading them again is cheaper than keeping them for each of a thousand pools.
const compactJobLimit = 256

// compact drops what can be rebuilt from the cache, and from the revision and the ConfigMaps that are kept.
func (s *localState) compact() {
	s.jobs = plan.Jobs{}
	if s.newestRevision != nil {
		s.newestRevision.Index = nil
	}
	for name, cm := range s.configMaps {
		s.configMaps[name] = &plan.ConfigMap{Object: cm.Object, ContentDropped: true, FencedTerm: cm.FencedTerm}
	}
}

// sanitizeStatus drops the numbers of the status that cannot be ours, so that the next report replaces them. Newest is the number of the
// newest stored revision.
func (s *localState) sanitizeStatus(pool *v1alpha1.WorkerPool, newest int64) {
	status := &pool.Status
	for _, field := range []struct {
		name   string
		number *int64
		stored int64
	}{
		{"version", &status.Version, 0}, {"revision", &status.Revision, newest}, {"convergedRevision", &status.ConvergedRevision, newest},
	} {
		if number := *field.number; number < 0 || number >= plan.MaxStatusNumber && number > field.stored {
			*field.number = 0
			s.addNumberIgnored("status.%s was set to %d", field.name, number)
		}
	}
}

// addNumberIgnored adds an event that a number is not believed.
func (s *localState) addNumberIgnored(format string, args ...any) {
	event := pendingEvent{
		reason: "NumberIgnored", message: fmt.Sprintf(format, args...) + ", which the operator has not given out: it is ignored", warning: true,
	}
	if !slices.Contains(s.events, event) { // it may be pending already
		s.events = append(s.events, event)
	}
}
