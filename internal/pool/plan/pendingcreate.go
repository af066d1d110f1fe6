package plan

import (
	"time"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// MaxCreateDuration is the maximum time from the admission of a pod, when it gets its floor, until it is stored. The API server cancels a
// create after 34 s (requestTimeoutUpperBound), and etcd cancels a pending write 7 s later. The rest is margin.
const MaxCreateDuration = 45 * time.Second

// trackRevocation records since when earlier lists of a worker are replaced, and drops records that no longer matter.
func (p *planner) trackRevocation(record assign.Record) {
	if len(record.Lists) > 1 {
		p.clocks.revokedSince(record, p.now)
		return
	}
	p.clocks.revocations.remove(record.Worker)
}

// createDeadline returns when every pod of a worker that was admitted before its newest list was published is stored, or never will be.
// Until then a missing pod proves nothing: such a pod may still be stored, and its floor lets it start the jobs of an earlier list. Only
// Exclusive promises that no other worker has those jobs.
func (p *planner) createDeadline(record assign.Record) (deadline time.Time, applies bool) {
	workload, exclusive := p.snapshot.Workload, p.pool.Spec.Handoff == v1alpha1.HandoffExclusive
	if !exclusive || len(record.Lists) < 2 || workload.usesSlots() || workload.SpecObserved && !workload.expectsOrdinal(record.Ordinal) {
		return time.Time{}, false
	}
	deadline = p.clocks.revokedSince(record, p.now).Add(MaxCreateDuration)
	return deadline, p.now.Before(deadline)
}

// mayStillBeCreated reports whether such a pod may still be stored for a worker without a pod, and schedules another check.
func (p *planner) mayStillBeCreated(record assign.Record) bool {
	deadline, applies := p.createDeadline(record)
	if !applies || !p.snapshot.GoneWorkers[record.Worker] {
		return false
	}
	p.memberSet.requeueWithin(deadline.Sub(p.now))
	return true
}
