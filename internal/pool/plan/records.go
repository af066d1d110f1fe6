package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// currentRecords returns what workers may hold now: what was published to them, except what they have confirmed to give up, and what ended
// with their pod and the Lease of its process, if it had one.
func (p *planner) currentRecords() []assign.Record {
	var records []assign.Record
	for _, record := range p.snapshot.Published.Records(p.snapshot.Workload) {
		pod := p.holderPods[record.Worker]
		p.trackRevocation(record)
		switch {
		case p.earlierPodMayRun(record.Worker):
			if pod != nil {
				record = record.WithPod(string(pod.UID)) // it waits as well
			}
		case pod != nil && p.clocks.isSuccessor(pod, record):
			record = p.applyAcknowledgement(record.WithoutPod().WithPod(string(pod.UID)), pod)
		case pod != nil:
			record = p.applyAcknowledgement(record.WithPod(string(pod.UID)), pod)
		case p.snapshot.GoneWorkers[record.Worker] && p.snapshot.Workload.usesSlots():
			continue // its name is not used again
		case p.snapshot.GoneWorkers[record.Worker] && !p.mayStillBeCreated(record):
			record = record.WithoutPod()
		}
		records = append(records, p.markOverdue(record))
	}
	return records
}

// applyAcknowledgement returns the record after the answer of its pod, or after what must be assumed without one.
func (p *planner) applyAcknowledgement(record assign.Record, pod *corev1.Pod) assign.Record {
	version := record.Lists[len(record.Lists)-1].Version
	if p.pool.Spec.Refresh.Acknowledge != nil {
		if response := p.snapshot.AckResponses[record.Worker]; response.Worker == record.Worker && response.FileVersion >= response.Version {
			return record.WithAcknowledgement(response.PodUID, response.Version)
		}
		return record
	}
	if p.isAssumedLoaded(record, pod, version) {
		return record.WithAcknowledgement(record.PodUID, version)
	}
	return record
}

// isAssumedLoaded reports whether a worker that cannot be asked must have loaded its list: its pod started after the list was published,
// the pool has converged on it before, or its deadline has passed and it is trusted to watch the file.
func (p *planner) isAssumedLoaded(record assign.Record, pod *corev1.Pod, version int64) bool {
	status, entry := p.pool.Status, p.snapshot.Published.Ledger[record.Worker]
	if status.ConvergedRevision == p.snapshot.newestNumber() && status.Version == p.snapshot.Published.Version && status.Version >= version {
		return true
	}
	if entry.PodUID != "" { // it has to be replaced
		ready, _ := PodReadiness(pod)
		return ready && entry.PodUID != record.PodUID && p.clocks.isSuccessor(pod, record)
	}
	return p.now.Sub(p.clocks.waitingSince(record, p.now)) >= p.ackDeadline()
}

// markOverdue marks workers whose deadline to confirm has passed.
func (p *planner) markOverdue(record assign.Record) assign.Record {
	if record.IsAcknowledged() {
		p.clocks.clearPendingAck(record.Worker)
		return record
	}
	waited := p.now.Sub(p.clocks.waitingSince(record, p.now))
	record.Overdue = waited >= p.ackDeadline()
	if !record.Overdue {
		p.memberSet.requeueWithin(p.ackDeadline() - waited)
	}
	return record
}

func (p *planner) ackDeadline() time.Duration {
	return time.Duration(p.pool.Spec.Refresh.DeadlineSeconds) * time.Second
}

// podsToReplace returns the pods that must be replaced to load what is published for them: by policy, or because nothing else proves that
// they have given up a job. Entries of other workers do not change.
func (p *planner) podsToReplace(shares []assign.Share) map[string]string {
	podUIDs := map[string]string{}
	for worker, entry := range p.snapshot.Published.Ledger {
		podUIDs[worker] = entry.PodUID
	}
	records := make(map[string]assign.Record, len(p.records))
	for _, record := range p.records {
		records[record.Worker] = record
	}
	for _, share := range shares {
		record := records[share.Worker]
		podUIDs[share.Worker] = ""
		if p.needsNewPod(record, share) {
			podUIDs[share.Worker] = record.PodUID
			if pod := p.podsByName[share.Worker]; pod != nil {
				podUIDs[share.Worker] = string(pod.UID)
			}
		}
	}
	return podUIDs
}

func (p *planner) needsNewPod(record assign.Record, share assign.Share) bool {
	refresh := p.pool.Spec.Refresh
	switch {
	case refresh.Policy == v1alpha1.RefreshRestart:
		return true
	case refresh.Acknowledge != nil, refresh.Policy == v1alpha1.RefreshHotReload, p.pool.Spec.Handoff != v1alpha1.HandoffExclusive:
		return false
	}
	keeps := make(map[string]bool, len(share.Jobs))
	for _, job := range share.Jobs {
		keeps[job] = true
	}
	for _, job := range record.MayHold() {
		if !keeps[job] {
			return true
		}
	}
	return false
}
