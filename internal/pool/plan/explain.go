package plan

import (
	"fmt"
	"time"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// explainLeases replaces the reason to wait by the Lease that the pool waits for, and its approximate end.
func (p *planner) explainLeases(pending []assign.PendingWorker) []assign.PendingWorker {
	for n, worker := range pending {
		if obs := p.clocks.Leases[worker.Worker]; obs.MayStillRun(p.holderPods[worker.Worker]) {
			pending[n].Reason = obs.Reason(worker.Worker, p.now)
		}
	}
	return pending
}

// Reason returns a text that changes only if the situation does.
func (o LeaseObservation) Reason(worker string, now time.Time) string {
	text := fmt.Sprintf("its pod %s is gone, but holds Lease %q, so that its process may live on and its jobs stay with it", o.HolderUID,
		lease.Name(worker))
	if o.renewed && now.Sub(o.ObservedSince) < o.Duration/2 {
		return text + ": it is still renewed"
	}
	return fmt.Sprintf("%s until about %s, if it is not renewed", text, o.expiry().UTC().Format("15:04:05 UTC"))
}

// explainPendingCreates adds until when the pool waits for workers whose next pod may have been admitted before their list was published.
func (p *planner) explainPendingCreates(pending []assign.PendingWorker) []assign.PendingWorker {
	records := make(map[string]assign.Record, len(p.records))
	for _, record := range p.records {
		records[record.Worker] = record
	}
	for n, worker := range pending {
		record := records[worker.Worker]
		if deadline, applies := p.createDeadline(record); applies && p.snapshot.GoneWorkers[worker.Worker] {
			pending[n].Reason = fmt.Sprintf("it has no pod, but one that was admitted before version %d was published may still be created until %s",
				record.Lists[len(record.Lists)-1].Version, deadline.UTC().Format("15:04:05 UTC"))
		}
	}
	return pending
}

// explainReleased adds to the reasons for waiting that a worker's pod left the workload: the operator does not evict such pods.
func (p *planner) explainReleased(pending []assign.PendingWorker) []assign.PendingWorker {
	ref := p.pool.Spec.Workers
	for n, worker := range pending {
		if p.snapshot.ReleasedPods[worker.Worker] != nil {
			pending[n].Reason += fmt.Sprintf("; its pod still exists, but %s %q does not control it: delete the pod if it does not respond",
				ref.Kind, ref.Name)
		}
	}
	return pending
}
