package plan

import (
	"fmt"
	"slices"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// MaxListed limits the workers and the unassigned jobs listed in status.
const MaxListed = 100

// describeWorkers lists the workers: all in a small pool, otherwise those that need attention.
func (p *planner) describeWorkers() {
	records := map[string]assign.Record{}
	for _, record := range p.records {
		records[record.Worker] = record
	}
	for _, m := range p.memberSet.members {
		record := records[m.Name]
		if m.pod == nil && !m.wanted && len(record.MayHold()) == 0 {
			continue // it has left; its empty list goes with the next publication
		}
		state := m.statusState()
		if len(p.memberSet.members) > MaxListed && (state == v1alpha1.WorkerReady && record.IsAcknowledged() || len(p.Workers) == MaxListed) {
			continue
		}
		status := v1alpha1.WorkerStatus{Name: m.Name, Jobs: int32(len(record.Current())), State: state, Revision: p.listChangedIn(m)}
		if len(record.Lists) > 0 {
			status.Acknowledged = p.ackState(record)
		}
		p.Workers = append(p.Workers, status)
	}
}

// listChangedIn returns the revision in which the worker's list last changed, 0 if it has none.
func (p *planner) listChangedIn(m member) int64 {
	history := p.snapshot.History
	if p.NewRevision != nil {
		history = append(slices.Clip(history), *p.NewRevision)
	}
	number, last := int64(0), uint64(0)
	for _, revision := range slices.Backward(history) {
		sum, found := revision.ChecksumOf(m.Ordinal)
		if !found || number > 0 && sum != last {
			break
		}
		number, last = revision.Number, sum
	}
	return number
}

func (p *planner) ackState(record assign.Record) v1alpha1.Acknowledgement {
	switch {
	case !record.IsAcknowledged():
		return v1alpha1.AckWaiting
	case p.pool.Spec.Refresh.Acknowledge == nil:
		return v1alpha1.AckAssumed
	}
	return v1alpha1.AckReceived
}

// MainProblem returns the problem that needs attention, or nil.
func (p Plan) MainProblem() *Problem {
	switch {
	case p.Blocker != nil:
		return p.Blocker
	case p.Problem != nil:
		return p.Problem
	case len(p.Unassigned) > 0 && p.ExpectedWorkers > 0 && !p.WorkersStarting:
		first := p.Unassigned[0]
		return NewProblem(v1alpha1.ReasonJobsUnassigned, "%d of %d jobs have no worker; %s: %s", len(p.Unassigned), p.Jobs, first.Job,
			first.Reason)
	}
	return nil
}

// ConvergingReason returns what the pool waits for.
func (p Plan) ConvergingReason() (v1alpha1.Reason, string) {
	switch {
	case p.Paused:
		return v1alpha1.ReasonPaused, "paused: set mode to Running to go on"
	case p.RevisionNumber == 0 || p.WorkersStarting && len(p.Pending) == 0:
		return v1alpha1.ReasonNoWorkers, fmt.Sprintf("%d of %d workers are ready", p.ReadyWorkers, p.ExpectedWorkers)
	case len(p.Pending) > 0:
		first := p.Pending[0]
		return v1alpha1.ReasonConverging, fmt.Sprintf("waiting for %d workers; %s: %s", len(p.Pending), first.Worker, first.Reason)
	}
	return v1alpha1.ReasonConverging, "a new list was published"
}
