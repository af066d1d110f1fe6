package workerpool

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/assign"
	"github.com/swarm-io/swarm-operator/internal/roster"
)

// A Plan is what to do about a pool now, and what to report.
type Plan struct {
	Refused    *refusal // why nothing can be done
	Problem    *refusal // why part of it cannot be done
	Revision   *kept    // to store before anything is published
	News       string   // about that revision
	Publish    []*sheet // to write, in order
	Nudge      []nudge
	Evict      []eviction
	Evicted    []eviction // the pods that were evicted
	Scale      *int32
	Discard    []kept
	Number     int64 // of the target revision
	Version    int64 // published after this plan
	Jobs       int
	Size       int
	Expected   int
	Selector   string
	Sources    []v1alpha1.JobSourceStatus
	Workers    []v1alpha1.WorkerStatus
	Unassigned []assign.Unassigned
	Waiting    []assign.PendingWorker
	Converged  bool
	Gathering  bool // participating workers are starting
	Paused     bool
	Again      time.Duration // when to reconcile again, 0 to wait for an event
	Unheard    bool          // a worker has yet to be asked for the first time: it is too early to report
}

// still reports whether there is nothing to do or to wait for.
func (p Plan) still() bool {
	return p.Converged && p.Again == 0 && p.Revision == nil && p.Scale == nil && len(p.Publish)+len(p.Nudge)+len(p.Evict)+len(p.Discard) == 0
}

// draft is a plan in progress.
type draft struct {
	Plan
	pool    *v1alpha1.WorkerPool
	world   world
	memory  *memory
	now     time.Time
	crew    crew
	present map[string]*corev1.Pod // pods of the workload, by name
	holders map[string]*corev1.Pod // present, and the pods that left the workload
	records []assign.Record
	ledger  roster.Ledger
	target  []assign.Share
}

// plan decides what to do now. It cannot fail, and cannot access the cluster.
func plan(pool *v1alpha1.WorkerPool, world world, memory *memory, now time.Time) Plan {
	d := draft{pool: pool, world: world, memory: memory, now: now}
	d.Sources, d.Jobs, d.Unheard = memory.jobs.sources, len(memory.jobs.all), !world.tried
	d.Number, d.Version = max(pool.Status.Revision, world.number()), max(world.published.version, pool.Status.Version)
	if world.refused != nil {
		d.Refused = world.refused
		return d.Plan
	}
	d.crew = enlist(pool, world, memory, now)
	d.present, d.holders = world.byName(), world.holders()
	d.records, d.ledger = d.holdings(), world.published.ledger
	d.Size, d.Expected, d.Selector = d.crew.ready(), world.wanted(pool), labelsOf(world.workload)
	d.Gathering = d.crew.gathering(pool, now)
	d.Paused = pool.Spec.Mode == v1alpha1.PoolPaused
	d.aim()
	d.step()
	d.deliver()
	d.refresh()
	d.scale()
	d.clean()
	d.describe()
	d.Again = d.crew.wait
	return d.Plan
}

// number returns the number of the newest stored revision, 0 for none.
func (w world) number() int64 {
	if len(w.history) == 0 {
		return 0
	}
	return w.history[len(w.history)-1].number
}

// step publishes what may be published now.
func (d *draft) step() {
	if d.target == nil || d.Paused {
		return
	}
	step := assign.Handover(d.target, d.records, assign.Handoff(d.pool.Spec.Handoff))
	d.Waiting = d.explainReleased(d.shade(d.explainArriving(step.Pending)))
	d.Converged = step.Phase == assign.Done
	if len(step.Publish) == 0 {
		return
	}
	d.publish(step.Publish)
}

// publish adds new lists to the records and writes these to sheets. The version is one above all previous ones.
func (d *draft) publish(shares []assign.Share) {
	version := d.Version + 1
	index := make(map[string]int, len(d.records))
	for n, record := range d.records {
		index[record.Worker] = n
	}
	births := d.births(shares)
	for _, share := range shares {
		at, known := index[share.Worker]
		if !known {
			at = len(d.records)
			d.records = append(d.records, assign.Record{Worker: share.Worker, Ordinal: share.Ordinal})
		}
		d.records[at].Ordinal = share.Ordinal
		d.records[at] = d.records[at].WithList(version, share.Jobs)
	}
	d.forgetGone()
	slices.SortFunc(d.records, byOrdinal)
	ledger := roster.NewLedger(d.records, births)
	file := filed(d.records)
	file.Version = version
	d.sheets(file, ledger, shares)
}

// sheets collects the ConfigMaps that change. If one of them would be too large, no ConfigMap and no revision is written.
func (d *draft) sheets(file roster.File, ledger roster.Ledger, shares []assign.Share) {
	changed := map[string]bool{}
	for _, share := range shares {
		changed[d.pool.ConfigNameOf(share.Worker)] = true
	}
	divided := divided(d.pool, sheet{file: file, ledger: ledger})
	for _, name := range sortedNames(divided) {
		if d.pool.Spec.Config.Layout == v1alpha1.LayoutPerWorker && !changed[name] {
			continue
		}
		content := divided[name]
		if existing := d.world.published.sheets[name]; existing != nil {
			content.object = existing.object
		} else {
			content.object = blank(d.pool, name).object
		}
		if _, refused := content.written(d.pool, 0); refused != nil {
			d.Problem, d.Publish, d.Revision, d.Number = refused, nil, nil, d.world.number()
			return
		}
		d.Publish = append(d.Publish, content)
	}
	d.Version, d.ledger, d.Converged = file.Version, ledger, false
}

// forgetGone drops workers that have no jobs and should have none, and whose pod is gone or has confirmed that. They receive no further
// lists, and a worker that is not in the file runs nothing.
func (d *draft) forgetGone() {
	aimed := make(map[string]bool, len(d.target))
	for _, share := range d.target {
		aimed[share.Worker] = true
	}
	d.records = slices.DeleteFunc(d.records, func(r assign.Record) bool {
		return !aimed[r.Worker] && len(r.MayHold()) == 0 && (r.PodUID == "" || r.IsAcknowledged())
	})
}
