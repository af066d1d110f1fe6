package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// Eviction is a pod to evict, with the reason and the version of the list that its successor starts with.
type Eviction struct {
	Pod         *corev1.Pod
	Reason      string
	ListVersion int64
}

// planEvictions replaces pods that cannot be updated otherwise: those that lose jobs first, and only as many at a time as may be
// unavailable.
func (p *planner) planEvictions() {
	if p.Paused || p.NewRevision != nil || len(p.ConfigMaps) > 0 {
		return // what is published now may make it unnecessary
	}
	unavailable := 0
	for _, m := range p.memberSet.members {
		if m.wanted && !m.ready {
			unavailable++
		}
	}
	allowed := int(p.pool.Spec.Refresh.MaxUnavailable) - unavailable
	for _, losing := range []bool{true, false} {
		for _, record := range p.records {
			pod := p.podsByName[record.Worker]
			if pod == nil || (len(record.Lists) > 1) != losing {
				continue
			}
			p.planReplacement(record, pod, &allowed)
		}
	}
}

// planReplacement evicts a pod if it must go and enough others are ready. A pod that is not ready does not count.
func (p *planner) planReplacement(record assign.Record, pod *corev1.Pod, allowed *int) {
	if p.clocks.Leases[record.Worker].MayStillRun(pod) {
		return // another pod would have to wait as well
	}
	reason := p.replaceReason(record, pod)
	if reason == "" {
		return
	}
	p.Converged = false
	p.Pending = slices.DeleteFunc(p.Pending, func(w assign.PendingWorker) bool { return w.Worker == record.Worker })
	p.Pending = append(p.Pending, assign.PendingWorker{Worker: record.Worker, Reason: "its pod is replaced: " + reason})
	if pod.DeletionTimestamp != nil {
		return
	}
	if ready, _ := PodReadiness(pod); ready {
		if *allowed <= 0 {
			return
		}
		*allowed--
	}
	p.Evictions = append(p.Evictions, Eviction{pod, reason, record.Lists[len(record.Lists)-1].Version})
}

// replaceReason returns why a pod has to be replaced, or "". A pod created after its list was published is not replaced again if it does
// not acknowledge: its successor would not either.
func (p *planner) replaceReason(record assign.Record, pod *corev1.Pod) string {
	refresh, entry := p.pool.Spec.Refresh, p.ledger[record.Worker]
	switch {
	case entry.PodUID == record.PodUID && entry.PodUID != "":
		return "only a new pod is sure to have its present list"
	case p.clocks.isSuccessor(pod, record):
		return ""
	case entry.PodUID != "" && refresh.Acknowledge == nil && !record.IsAcknowledged():
		return "it may have begun before its present list was published"
	case len(record.Lists) > 1 && p.hasFailed(record.Worker):
		return "it was not ready for too long"
	case refresh.Policy != v1alpha1.RefreshAuto || refresh.Acknowledge == nil || !record.Overdue:
		return ""
	}
	return "it has not acknowledged its list in time"
}

func (p *planner) hasFailed(worker string) bool {
	for _, m := range p.memberSet.members {
		if m.Name == worker {
			return m.failed && p.memberSet.failoverProblem == nil
		}
	}
	return false
}

// planScale sets the number of pods to that of the pool: at once when it grows, and when the last pods hold nothing any more when it
// shrinks.
func (p *planner) planScale() {
	if p.pool.Spec.Replicas == nil || p.Paused {
		return
	}
	wanted, current := int(*p.pool.Spec.Replicas), p.snapshot.Workload.Replicas
	if wanted < current {
		wanted = max(wanted, p.heldOrdinalsEnd()-p.snapshot.Workload.FirstOrdinal)
	}
	if wanted != current && (wanted > current || p.NewRevision == nil && len(p.ConfigMaps) == 0) {
		p.ScaleTo = new(int32(wanted))
	}
}

// heldOrdinalsEnd is one above the highest ordinal that may hold jobs. A Deployment shrinks in one step, since it chooses which pods it
// deletes.
func (p *planner) heldOrdinalsEnd() int {
	highest := 0
	for _, record := range p.records {
		if len(record.MayHold()) > 0 {
			highest = max(highest, record.Ordinal+1)
		}
	}
	if p.snapshot.Workload.usesSlots() && highest > int(*p.pool.Spec.Replicas) {
		return p.snapshot.Workload.Replicas
	}
	return highest
}

// planCleanup discards revisions that are neither needed nor within the history limit.
func (p *planner) planCleanup() {
	keep := int(p.pool.Spec.RevisionHistoryLimit) + 1 // and the newest one
	obsolete := p.snapshot.History[:max(0, len(p.snapshot.History)-keep)]
	for _, revision := range obsolete {
		if revision.Number < p.pool.Status.ConvergedRevision && revision.Number != p.pool.Spec.RollbackTo {
			p.ObsoleteRevisions = append(p.ObsoleteRevisions, revision)
		}
	}
}

func selectorString(w Workload) string {
	selector, err := metav1.LabelSelectorAsSelector(w.Selector)
	if err != nil {
		return ""
	}
	return selector.String()
}
