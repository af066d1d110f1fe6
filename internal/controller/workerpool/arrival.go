package workerpool

import (
	"fmt"
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/assign"
)

// createTime is the maximum time from the admission of a pod, when it gets its floor, until it is stored. The API server cancels a create
// after 34 s (requestTimeoutUpperBound), and etcd cancels a pending write 7 s later. The rest is margin.
const createTime = 45 * time.Second

// revocation is the time since when a worker is known to have a list that replaces earlier ones.
type revocation struct {
	version int64
	since   time.Time
}

// revokedSince returns when this leader first saw the newest list of a worker that may still hold jobs of earlier ones.
func (m *memory) revokedSince(record assign.Record, now time.Time) time.Time {
	version := record.Lists[len(record.Lists)-1].Version
	known := m.revoked[record.Worker]
	if known.version != version {
		known = revocation{version, now}
		m.revoked.take(record.Worker, known)
	}
	return known.since
}

// noteRevoked records since when earlier lists of a worker are replaced, and drops records that no longer matter.
func (d *draft) noteRevoked(record assign.Record) {
	if len(record.Lists) > 1 {
		d.memory.revokedSince(record, d.now)
		return
	}
	d.memory.revoked.drop(record.Worker)
}

// stored returns when every pod of a worker that was admitted before its newest list was published is stored, or never will be. Until
// then a missing pod proves nothing: such a pod may still be stored, and its floor lets it start the jobs of an earlier list. Only
// Exclusive promises that no other worker has those jobs.
func (d *draft) stored(record assign.Record) (at time.Time, matters bool) {
	of, promised := d.world.workload, d.pool.Spec.Handoff == v1alpha1.HandoffExclusive
	if !promised || len(record.Lists) < 2 || of.slotted() || of.observed && !of.expects(record.Ordinal) {
		return time.Time{}, false
	}
	at = d.memory.revokedSince(record, d.now).Add(createTime)
	return at, d.now.Before(at)
}

// arriving reports whether such a pod may still be stored for a worker without a pod, and schedules another check.
func (d *draft) arriving(record assign.Record) bool {
	at, matters := d.stored(record)
	if !matters || !d.world.gone[record.Worker] {
		return false
	}
	d.crew.await(at.Sub(d.now))
	return true
}

// explainArriving adds until when the pool waits for workers whose next pod may have been admitted before their list was published.
func (d *draft) explainArriving(waiting []assign.PendingWorker) []assign.PendingWorker {
	records := make(map[string]assign.Record, len(d.records))
	for _, record := range d.records {
		records[record.Worker] = record
	}
	for n, one := range waiting {
		record := records[one.Worker]
		if at, matters := d.stored(record); matters && d.world.gone[one.Worker] {
			waiting[n].Reason = fmt.Sprintf("it has no pod, but one that was admitted before version %d was published may still be created until %s",
				record.Lists[len(record.Lists)-1].Version, at.UTC().Format("15:04:05 UTC"))
		}
	}
	return waiting
}
