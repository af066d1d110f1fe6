package workerpool

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/assign"
	"github.com/swarm-io/swarm-operator/kit"
)

const (
	// brief is the time before a handover is shown: most end sooner, and then cost one write.
	brief = time.Second
	// shownEvery is the minimum interval between writes of mere progress.
	shownEvery = 3 * time.Second
	// mostShown limits the workers and the unassigned jobs listed in status.
	mostShown = 100
	// mostNews limits the pending events.
	mostNews = 20
	// retry is the delay before an eviction refused by a budget is requested again.
	retry = 5 * time.Second
)

// describe lists the workers: all in a small pool, otherwise those that need attention.
func (d *draft) describe() {
	records := map[string]assign.Record{}
	for _, record := range d.records {
		records[record.Worker] = record
	}
	for _, m := range d.crew.members {
		record, known := records[m.Name]
		if !known && m.pod == nil && !m.wanted {
			continue
		}
		state := m.shown()
		if len(d.crew.members) > mostShown && (state == v1alpha1.WorkerReady && record.IsAcknowledged() || len(d.Workers) == mostShown) {
			continue
		}
		shown := v1alpha1.WorkerStatus{Name: m.Name, Jobs: int32(len(record.Current())), State: state, Revision: d.since(m)}
		if len(record.Lists) > 0 {
			shown.Acknowledged = d.acknowledged(record)
		}
		d.Workers = append(d.Workers, shown)
	}
}

// since returns the revision in which the worker's list last changed, 0 if it has none.
func (d *draft) since(m member) int64 {
	history := d.world.history
	if d.Revision != nil {
		history = append(slices.Clip(history), *d.Revision)
	}
	number, present := int64(0), uint64(0)
	for _, revision := range slices.Backward(history) {
		list, found := revision.listOf(m.Ordinal)
		if !found || number > 0 && list != present {
			break
		}
		number, present = revision.number, list
	}
	return number
}

func (d *draft) acknowledged(record assign.Record) v1alpha1.Acknowledgement {
	switch {
	case !record.IsAcknowledged():
		return v1alpha1.AckWaiting
	case d.pool.Spec.Refresh.Acknowledge == nil:
		return v1alpha1.AckAssumed
	}
	return v1alpha1.AckReceived
}

// report is the only status write. A handover that ends soon is not shown.
func (r *reconciler) report(ctx context.Context, pool *v1alpha1.WorkerPool, plan Plan, memory *memory) (kit.Result, error) {
	memory.note(pool, plan)
	switch {
	case plan.Unheard:
		return kit.RequeueAfter(brief, "Asking"), nil // the answer triggers a reconcile sooner
	case len(plan.Publish) > 0:
		return kit.Requeue("Published"), nil // the report depends on who has loaded it
	}
	if left := memory.brevity(pool, plan); left > 0 {
		return kit.RequeueAfter(left, "Converging"), nil
	}
	report := r.status.Report(pool, &pool.Status.Conditions)
	for _, news := range memory.news {
		kind := corev1.EventTypeNormal
		if news.warning {
			kind = corev1.EventTypeWarning
		}
		report.EventAbout(news.about, kind, news.reason, news.message)
	}
	fill(pool, plan)
	judge(report, pool, plan)
	if left := report.WriteDelay(); left > 0 {
		return kit.RequeueAfter(left, "Counting"), nil
	}
	if err := report.Write(ctx); err != nil {
		return kit.Done(), fmt.Errorf("report on pool %q: %w", pool.Name, err)
	}
	memory.news = nil
	return plan.result(), nil
}

// progress updates what can be delayed: how many workers have loaded their lists.
func progress(pool *v1alpha1.WorkerPool) {
	pool.Status.Workers = nil
	for n := range pool.Status.Conditions {
		if pool.Status.Conditions[n].Type == v1alpha1.ConditionConverged {
			pool.Status.Conditions[n].Message = ""
		}
	}
}

// note keeps events until they are reported.
func (m *memory) note(pool *v1alpha1.WorkerPool, plan Plan) {
	if plan.News != "" {
		m.news = append(m.news, event{reason: "Planned", message: plan.News, about: &corev1.ObjectReference{
			APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ControllerRevision", Namespace: pool.Namespace, Name: revisionName(pool, plan.Number),
		}})
	}
	for _, one := range plan.Evicted {
		m.news = append(m.news, event{reason: "Replacing", message: fmt.Sprintf("pod %s: %s", one.pod.Name, one.reason), about: &corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pool.Namespace, Name: one.pod.Name, UID: one.pod.UID,
		}})
	}
	m.news = m.news[max(0, len(m.news)-mostNews):]
}

// result returns when to reconcile again.
func (p Plan) result() kit.Result {
	switch {
	case len(p.Evict) > 0:
		return kit.RequeueAfter(retry, "Replacing")
	case p.Again > 0:
		return kit.RequeueAfter(p.Again, "Waiting")
	}
	return kit.Done()
}

// brevity returns how long the status of a converged pool may lag behind.
func (m *memory) brevity(pool *v1alpha1.WorkerPool, plan Plan) time.Duration {
	if plan.Converged || plan.Refused != nil || plan.Problem != nil || plan.Paused || pool.Status.ObservedGeneration != pool.Generation {
		m.begun = time.Time{}
		return 0
	}
	if m.begun.IsZero() {
		m.begun = time.Now()
	}
	return brief - time.Since(m.begun)
}

// fill sets everything but the conditions.
func fill(pool *v1alpha1.WorkerPool, plan Plan) {
	status := &pool.Status
	status.ObservedGeneration, status.Jobs, status.Source = pool.Generation, int32(plan.Jobs), plan.Sources
	if plan.Refused != nil {
		return
	}
	status.Size, status.ExpectedSize, status.Selector = int32(plan.Size), int32(plan.Expected), plan.Selector
	status.Version, status.Revision, status.Workers = plan.Version, plan.Number, plan.Workers
	if plan.Converged {
		status.ConvergedRevision = plan.Number
	}
	status.Unassigned = nil
	for _, job := range plan.Unassigned[:min(len(plan.Unassigned), mostShown)] {
		status.Unassigned = append(status.Unassigned, job.Job)
	}
}

// judge sets the conditions and the phase.
func judge(report *kit.Report[*v1alpha1.WorkerPool], pool *v1alpha1.WorkerPool, plan Plan) {
	generation, status := pool.Generation, &pool.Status
	trouble := plan.trouble()
	if trouble != nil {
		report.Warning(v1alpha1.Degraded(generation, trouble.reason, trouble.message))
	} else {
		report.Condition(v1alpha1.NotDegraded(generation))
	}
	switch {
	case plan.Refused != nil:
		report.Condition(v1alpha1.NotReady(generation, plan.Refused.reason, plan.Refused.message))
		report.Condition(v1alpha1.Converging(generation, plan.Refused.reason, plan.Refused.message))
		status.Phase = v1alpha1.PoolPending
		return
	case plan.Converged:
		report.Normal(v1alpha1.Converged(generation, "every job that has a worker is where it should be"))
		status.Phase = v1alpha1.PoolConverged
	default:
		reason, message := plan.why()
		report.Condition(v1alpha1.Converging(generation, reason, message))
		status.Phase = v1alpha1.PoolConverging
		if plan.Number == 0 {
			status.Phase = v1alpha1.PoolPending
		}
	}
	judgeReadiness(report, pool, plan, trouble)
}

// judgeReadiness sets whether the jobs have workers. After a pool has converged once, a handover does not change that.
func judgeReadiness(report *kit.Report[*v1alpha1.WorkerPool], pool *v1alpha1.WorkerPool, plan Plan, trouble *refusal) {
	generation, status := pool.Generation, &pool.Status
	switch reason, message := plan.why(); {
	case trouble != nil:
		status.Phase = v1alpha1.PoolDegraded
		report.Condition(v1alpha1.NotReady(generation, trouble.reason, trouble.message)) // Degraded has the same message
	case plan.Expected == 0 && plan.Jobs > 0:
		report.Normal(v1alpha1.NotReady(generation, v1alpha1.ReasonNoWorkers, fmt.Sprintf("%d jobs wait: the workload is scaled to 0", plan.Jobs)))
	case status.ConvergedRevision == 0 && !plan.Converged:
		report.Normal(v1alpha1.NotReady(generation, reason, message))
	default:
		report.Normal(v1alpha1.Ready(generation, v1alpha1.ReasonAvailable, "every job has a worker"))
	}
}

// trouble returns the problem that needs attention, or nil.
func (p Plan) trouble() *refusal {
	switch {
	case p.Refused != nil:
		return p.Refused
	case p.Problem != nil:
		return p.Problem
	case len(p.Unassigned) > 0 && p.Expected > 0 && !p.Gathering:
		first := p.Unassigned[0]
		return refuse(v1alpha1.ReasonJobsUnassigned, "%d of %d jobs have no worker; %s: %s", len(p.Unassigned), p.Jobs, first.Job, first.Reason)
	}
	return nil
}

// why returns what the pool waits for.
func (p Plan) why() (v1alpha1.Reason, string) {
	switch {
	case p.Paused:
		return v1alpha1.ReasonPaused, "paused: set mode to Running to go on"
	case p.Number == 0 || p.Gathering && len(p.Waiting) == 0:
		return v1alpha1.ReasonNoWorkers, fmt.Sprintf("%d of %d workers are ready", p.Size, p.Expected)
	case len(p.Waiting) > 0:
		first := p.Waiting[0]
		return v1alpha1.ReasonConverging, fmt.Sprintf("waiting for %d workers; %s: %s", len(p.Waiting), first.Worker, first.Reason)
	}
	return v1alpha1.ReasonConverging, "a new list was published"
}
