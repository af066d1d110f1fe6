package workerpool

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/assign"
)

// holdings returns what workers may hold now: what was published to them, except what they have confirmed to give up, and what ended with
// their pod and the Lease of its process, if it had one.
func (d *draft) holdings() []assign.Record {
	var records []assign.Record
	for _, record := range d.world.published.records(d.world.workload) {
		pod := d.holders[record.Worker]
		d.noteRevoked(record)
		switch {
		case d.shadowed(record.Worker):
			if pod != nil {
				record = record.WithPod(string(pod.UID)) // it waits as well
			}
		case pod != nil && d.memory.succeeds(pod, record):
			record = d.heard(record.WithoutPod().WithPod(string(pod.UID)), pod)
		case pod != nil:
			record = d.heard(record.WithPod(string(pod.UID)), pod)
		case d.world.gone[record.Worker] && d.world.workload.slotted():
			continue // its name is not used again
		case d.world.gone[record.Worker] && !d.arriving(record):
			record = record.WithoutPod()
		}
		records = append(records, d.overdue(record))
	}
	return records
}

// heard returns the record after the answer of its pod, or after what must be assumed without one.
func (d *draft) heard(record assign.Record, pod *corev1.Pod) assign.Record {
	version := record.Lists[len(record.Lists)-1].Version
	if d.pool.Spec.Refresh.Acknowledge != nil {
		if answer := d.world.answers[record.Worker]; answer.Worker == record.Worker && answer.FileVersion >= answer.Version {
			return record.WithAcknowledgement(answer.PodUID, answer.Version)
		}
		return record
	}
	if d.assumed(record, pod, version) {
		return record.WithAcknowledgement(record.PodUID, version)
	}
	return record
}

// assumed reports whether a worker that cannot be asked must have loaded its list: its pod started after the list was published, the pool
// has converged on it before, or its deadline has passed and it is trusted to watch the file.
func (d *draft) assumed(record assign.Record, pod *corev1.Pod, version int64) bool {
	status, account := d.pool.Status, d.world.published.ledger[record.Worker]
	if status.ConvergedRevision == d.world.number() && status.Version == d.world.published.version && status.Version >= version {
		return true
	}
	if account.PodUID != "" { // it has to be replaced
		ready, _ := readiness(pod)
		return ready && account.PodUID != record.PodUID && d.memory.succeeds(pod, record)
	}
	return d.now.Sub(d.memory.waitingSince(record, d.now)) >= d.deadline()
}

// overdue marks workers whose deadline to confirm has passed.
func (d *draft) overdue(record assign.Record) assign.Record {
	if record.IsAcknowledged() {
		d.memory.settled(record.Worker)
		return record
	}
	waited := d.now.Sub(d.memory.waitingSince(record, d.now))
	record.Overdue = waited >= d.deadline()
	if !record.Overdue {
		d.crew.await(d.deadline() - waited)
	}
	return record
}

func (d *draft) deadline() time.Duration {
	return time.Duration(d.pool.Spec.Refresh.DeadlineSeconds) * time.Second
}

// births returns the pods that must be replaced to load what is published for them: by policy, or because nothing else proves that they
// have given up a job. Entries of other workers do not change.
func (d *draft) births(shares []assign.Share) map[string]string {
	births := map[string]string{}
	for worker, account := range d.world.published.ledger {
		births[worker] = account.PodUID
	}
	before := make(map[string]assign.Record, len(d.records))
	for _, record := range d.records {
		before[record.Worker] = record
	}
	for _, share := range shares {
		record := before[share.Worker]
		births[share.Worker] = ""
		if d.mustReplace(record, share) {
			births[share.Worker] = record.PodUID
			if pod := d.present[share.Worker]; pod != nil {
				births[share.Worker] = string(pod.UID)
			}
		}
	}
	return births
}

func (d *draft) mustReplace(record assign.Record, share assign.Share) bool {
	refresh := d.pool.Spec.Refresh
	switch {
	case refresh.Policy == v1alpha1.RefreshRestart:
		return true
	case refresh.Acknowledge != nil, refresh.Policy == v1alpha1.RefreshHotReload, d.pool.Spec.Handoff != v1alpha1.HandoffExclusive:
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
