package assign

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// maxWorkers is the maximum number of workers: few, so that each is affected often.
const maxWorkers = 3

// simulation is a pool with workers that run what they read, and with the operator's view of them.
type simulation struct {
	version int64
	files   map[string]ListVersion // as published
	pods    map[string]*simulatedPod
	records map[string]Record
	size    int
	jobs    []Job
	plan    *Revision
	uids    int
}

// simulatedPod is a pod with the jobs that it runs, and their version.
type simulatedPod struct {
	uid     string
	version int64
	jobs    []string
}

func (w *simulation) sortedRecords() (records []Record) {
	for n := range maxWorkers {
		if record, known := w.records[fmt.Sprint("w-", n)]; known {
			records = append(records, record)
		}
	}
	return records
}

// replan starts from the current possible holders, with the current pool and jobs.
func (w *simulation) replan(t testingT) {
	in := Input{Jobs: newTestList(t, w.jobs...), Workers: readyWorkers(w.size), Previous: BaseRevision(w.plan, w.sortedRecords())}
	w.plan = Plan(in).Next
}

// reconcile is one reconcile.
func (w *simulation) reconcile() Step {
	step := Handover(w.plan.Shares(), w.sortedRecords(), Exclusive)
	if len(step.Publish) > 0 {
		w.version++
	}
	for _, share := range step.Publish {
		record, known := w.records[share.Worker]
		if !known {
			record = Record{Worker: share.Worker, Ordinal: share.Ordinal}
		}
		w.records[share.Worker] = record.WithList(w.version, share.Jobs)
		w.files[share.Worker] = ListVersion{w.version, share.Jobs}
	}
	return step
}

// loadFile makes a worker load its file.
func (w *simulation) loadFile(worker string) {
	if pod, file := w.pods[worker], w.files[worker]; pod != nil && file.Version > 0 {
		pod.version, pod.jobs = file.Version, file.Jobs
	}
}

// observe updates the operator's view of a worker.
func (w *simulation) observe(worker string) {
	record, known := w.records[worker]
	if !known {
		return
	}
	if pod := w.pods[worker]; pod == nil {
		record = record.WithoutPod()
	} else {
		record = record.WithPod(pod.uid).WithAcknowledgement(pod.uid, pod.version)
	}
	w.records[worker] = record
}

// togglePod starts a pod with the current file, or stops it.
func (w *simulation) togglePod(worker string) {
	if w.pods[worker] != nil {
		delete(w.pods, worker)
		return
	}
	w.uids++
	w.pods[worker] = &simulatedPod{uid: fmt.Sprint("uid-", w.uids)}
	w.loadFile(worker)
}

func (w *simulation) requireOneOwner(t *rapid.T) {
	owners := map[string]string{}
	for n := range maxWorkers {
		worker := fmt.Sprint("w-", n)
		if w.pods[worker] == nil {
			continue
		}
		for _, job := range w.pods[worker].jobs {
			if other := owners[job]; other != "" {
				t.Fatalf("%s runs on %s and on %s", job, other, worker)
			}
			owners[job] = worker
		}
	}
}

// For any order of events, no job runs twice; and when the events end, all jobs run on their assigned worker.
func TestNeverTwoOwners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sim := &simulation{files: map[string]ListVersion{}, pods: map[string]*simulatedPod{}, records: map[string]Record{}, size: 2,
			jobs: equalJobs(4)}
		worker := func() string { return fmt.Sprint("w-", rapid.IntRange(0, maxWorkers-1).Draw(t, "worker")) }
		sim.replan(t)
		sim.requireConvergence(t)
		actions := map[string]func(*rapid.T){
			"scale":  func(t *rapid.T) { sim.size = rapid.IntRange(0, maxWorkers).Draw(t, "pool"); sim.replan(t) },
			"jobs":   func(t *rapid.T) { sim.jobs = equalJobs(rapid.IntRange(0, 5).Draw(t, "jobs")); sim.replan(t) },
			"replan": func(t *rapid.T) { sim.replan(t) },
			"step":   func(*rapid.T) { sim.reconcile() },
			"read":   func(*rapid.T) { sim.loadFile(worker()) },
			"look":   func(*rapid.T) { sim.observe(worker()) },
			"toggle": func(*rapid.T) { sim.togglePod(worker()) },
			"overdue": func(*rapid.T) {
				name := worker()
				r, ok := sim.records[name]
				r.Overdue = !r.Overdue
				if ok {
					sim.records[name] = r
				}
			},
			"": sim.requireOneOwner,
		}
		t.Repeat(actions)
		sim.requireConvergence(t)
	})
}

func (w *simulation) requireConvergence(t *rapid.T) {
	for range 4 {
		w.reconcile()
		for n := range maxWorkers {
			worker := fmt.Sprint("w-", n)
			if w.pods[worker] == nil && n < w.size {
				w.togglePod(worker)
			}
			w.loadFile(worker)
			w.observe(worker)
		}
		w.requireOneOwner(t)
	}
	if last := w.reconcile(); last.Phase != Done {
		t.Fatalf("not converged: %v", last)
	}
	for _, share := range w.plan.Shares() {
		if len(share.Jobs) > 0 && !slices.Equal(w.pods[share.Worker].jobs, share.Jobs) {
			t.Fatalf("%s runs %v, planned %v", share.Worker, w.pods[share.Worker].jobs, share.Jobs)
		}
	}
}
