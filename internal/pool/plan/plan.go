// Package plan decides what to do about a WorkerPool. A Snapshot of what was read goes in, a Plan comes out: the controller carries it out,
// and kubectl swarm shows it.
//
// A plan cannot fail, reads nothing, and changes neither the snapshot nor the clocks that it is made from. The same arguments give the same
// plan.
package plan

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

// A Plan is what to do about a pool now, and what to report.
type Plan struct {
	Blocker           *Problem        // why nothing can be done
	Problem           *Problem        // why part of it cannot be done
	NewRevision       *StoredRevision // to store before anything is published
	RevisionMessage   string          // about that revision
	ConfigMaps        []*ConfigMap    // to write, in order
	Nudges            []Nudge
	Evictions         []Eviction
	Evicted           []Eviction // the pods that were evicted
	ScaleTo           *int32
	ObsoleteRevisions []StoredRevision
	RevisionNumber    int64 // of the target revision
	Version           int64 // published after this plan
	Jobs              int
	ReadyWorkers      int
	ExpectedWorkers   int
	Selector          string
	Sources           []v1alpha1.JobSourceStatus
	Workers           []v1alpha1.WorkerStatus
	Unassigned        []assign.Unassigned
	Pending           []assign.PendingWorker
	Converged         bool
	WorkersStarting   bool // participating workers are starting
	Paused            bool
	RequeueAfter      time.Duration    // when to reconcile again, 0 to wait for an event
	AwaitingFirstPoll bool             // a worker has yet to be asked for the first time: it is too early to report
	Followed          *assign.Revision // the newest revision with the indexes of the current jobs, if it is followed
	FollowsNewest     bool             // the pool follows the newest revision, or creates one
	Clocks            Clocks           // to continue with
}

// IsIdle reports whether there is nothing to do or to wait for.
func (p Plan) IsIdle() bool {
	return p.Converged && p.RequeueAfter == 0 && p.NewRevision == nil && p.ScaleTo == nil &&
		len(p.ConfigMaps)+len(p.Nudges)+len(p.Evictions)+len(p.ObsoleteRevisions) == 0
}

// planner is a plan in progress.
type planner struct {
	Plan
	pool       *v1alpha1.WorkerPool
	snapshot   Snapshot
	clocks     *Clocks
	now        time.Time
	memberSet  memberSet
	podsByName map[string]*corev1.Pod // pods of the workload, by name
	holderPods map[string]*corev1.Pod // present, and the pods that left the workload
	records    []assign.Record
	ledger     codec.Ledger
	decision   assign.Decision // which worker should have which job
	target     []assign.Share  // the same, of the workers that exist
}

// For decides what to do now. The clocks to continue with are part of the plan.
func For(pool *v1alpha1.WorkerPool, snapshot Snapshot, before Clocks, now time.Time) Plan {
	p := newPlanner(pool, snapshot, before, now)
	if p.Blocker == nil {
		p.decide()
	}
	return p.Plan
}

// newPlanner returns a planner that knows the members of the pool, and what they may hold.
func newPlanner(pool *v1alpha1.WorkerPool, snapshot Snapshot, before Clocks, now time.Time) *planner {
	p := &planner{pool: pool, snapshot: snapshot, now: now}
	p.Clocks = before.clone()
	p.clocks = &p.Clocks
	p.Sources, p.Jobs, p.AwaitingFirstPoll = snapshot.Jobs.sources, len(snapshot.Jobs.Jobs), !snapshot.AllPolled
	p.RevisionNumber, p.Version = max(pool.Status.Revision, snapshot.newestNumber()), max(snapshot.Published.Version, pool.Status.Version)
	if snapshot.Problem != nil {
		p.Blocker = snapshot.Problem
		return p
	}
	p.memberSet = buildMembers(pool, snapshot, p.clocks, now)
	p.podsByName, p.holderPods = snapshot.podsByName(), snapshot.holderPods()
	p.records, p.ledger = p.currentRecords(), snapshot.Published.Ledger
	p.ReadyWorkers, p.ExpectedWorkers, p.Selector = p.memberSet.readyCount(), snapshot.wantedReplicas(pool), selectorString(snapshot.Workload)
	p.WorkersStarting = p.memberSet.hasStartingMember(pool, now)
	p.Paused = pool.Spec.Mode == v1alpha1.PoolPaused
	return p
}

// decide completes the plan.
func (p *planner) decide() {
	p.assignJobs()
	p.planHandover()
	p.planNudges()
	p.planEvictions()
	p.planScale()
	p.planCleanup()
	p.describeWorkers()
	p.RequeueAfter = p.memberSet.requeueAfter
}

// planHandover publishes what may be published now.
func (p *planner) planHandover() {
	if p.target == nil || p.Paused {
		return
	}
	step := assign.Handover(p.target, p.records, assign.Handoff(p.pool.Spec.Handoff))
	p.Pending = p.explainReleased(p.explainLeases(p.explainPendingCreates(step.Pending)))
	p.Converged = step.Phase == assign.Done
	if len(step.Publish) == 0 {
		return
	}
	p.publishLists(step.Publish)
}

// publishLists adds new lists to the records and writes these to ConfigMaps. The version is one above all previous ones.
func (p *planner) publishLists(shares []assign.Share) {
	version := p.Version + 1
	index := make(map[string]int, len(p.records))
	for n, record := range p.records {
		index[record.Worker] = n
	}
	podUIDs := p.podsToReplace(shares)
	for _, share := range shares {
		i, exists := index[share.Worker]
		if !exists {
			i = len(p.records)
			p.records = append(p.records, assign.Record{Worker: share.Worker, Ordinal: share.Ordinal})
		}
		p.records[i].Ordinal = share.Ordinal
		p.records[i] = p.records[i].WithList(version, share.Jobs)
	}
	p.dropGoneRecords()
	slices.SortFunc(p.records, byOrdinal)
	ledger := codec.NewLedger(p.records, podUIDs)
	file := toFile(p.records)
	file.Version = version
	p.planConfigMaps(file, ledger, shares)
}

// planConfigMaps collects the ConfigMaps that change. If one of them would be too large, no ConfigMap and no revision is written.
func (p *planner) planConfigMaps(file codec.File, ledger codec.Ledger, shares []assign.Share) {
	changed := map[string]bool{}
	for _, share := range shares {
		changed[p.pool.ConfigNameOf(share.Worker)] = true
	}
	configMaps := SplitPerWorker(p.pool, ConfigMap{File: file, Ledger: ledger})
	for _, name := range slices.Sorted(maps.Keys(configMaps)) {
		if p.pool.Spec.Config.Layout == v1alpha1.LayoutPerWorker && !changed[name] {
			continue
		}
		cm := configMaps[name]
		if existing := p.snapshot.Published.ConfigMaps[name]; existing != nil {
			cm.Object = existing.Object
		} else {
			cm.Object = NewConfigMap(p.pool, name).Object
		}
		if _, problem := cm.Render(p.pool, 0); problem != nil {
			p.Problem, p.ConfigMaps, p.NewRevision, p.RevisionNumber = problem, nil, nil, p.snapshot.newestNumber()
			return
		}
		p.ConfigMaps = append(p.ConfigMaps, cm)
	}
	p.Version, p.ledger, p.Converged = file.Version, ledger, false
}

// dropGoneRecords drops workers that have no jobs and should have none, and whose pod is gone or has confirmed that. They receive no
// further lists, and a worker that is not in the file runs nothing.
func (p *planner) dropGoneRecords() {
	targeted := make(map[string]bool, len(p.target))
	for _, share := range p.target {
		targeted[share.Worker] = true
	}
	p.records = slices.DeleteFunc(p.records, func(r assign.Record) bool {
		return !targeted[r.Worker] && len(r.MayHold()) == 0 && (r.PodUID == "" || r.IsAcknowledged())
	})
}
