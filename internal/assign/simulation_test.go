package assign

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// most is the maximum number of workers: few, so that each is affected often.
const most = 3

// world is a pool with workers that run what they read, and with the operator's view of them.
type world struct {
	version int64
	files   map[string]Edition // as published
	pods    map[string]*running
	records map[string]Record
	pool    int
	jobs    []Job
	plan    *Revision
	uids    int
}

// running is a pod with the jobs that it runs, and their version.
type running struct {
	uid     string
	version int64
	jobs    []string
}

func (w *world) sorted() (records []Record) {
	for n := range most {
		if record, known := w.records[fmt.Sprint("w-", n)]; known {
			records = append(records, record)
		}
	}
	return records
}

// replan starts from the current possible holders, with the current pool and jobs.
func (w *world) replan(t failing) {
	in := Input{Jobs: listOf(t, w.jobs...), Workers: crew(w.pool), Previous: Basis(w.plan, w.sorted())}
	w.plan = Plan(in).Next
}

// step is one reconcile.
func (w *world) step() Step {
	step := Handover(w.plan.Shares(), w.sorted(), Exclusive)
	if len(step.Publish) > 0 {
		w.version++
	}
	for _, share := range step.Publish {
		record, known := w.records[share.Worker]
		if !known {
			record = Record{Worker: share.Worker, Ordinal: share.Ordinal}
		}
		w.records[share.Worker] = record.Published(w.version, share.Jobs)
		w.files[share.Worker] = Edition{w.version, share.Jobs}
	}
	return step
}

// read makes a worker load its file.
func (w *world) read(worker string) {
	if pod, file := w.pods[worker], w.files[worker]; pod != nil && file.Version > 0 {
		pod.version, pod.jobs = file.Version, file.Jobs
	}
}

// look updates the operator's view of a worker.
func (w *world) look(worker string) {
	record, known := w.records[worker]
	if !known {
		return
	}
	if pod := w.pods[worker]; pod == nil {
		record = record.Vacant()
	} else {
		record = record.Seen(pod.uid).Confirmed(pod.uid, pod.version)
	}
	w.records[worker] = record
}

// toggle starts a pod with the current file, or stops it.
func (w *world) toggle(worker string) {
	if w.pods[worker] != nil {
		delete(w.pods, worker)
		return
	}
	w.uids++
	w.pods[worker] = &running{uid: fmt.Sprint("uid-", w.uids)}
	w.read(worker)
}

func (w *world) oneOwner(t *rapid.T) {
	owners := map[string]string{}
	for n := range most {
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
		w := &world{files: map[string]Edition{}, pods: map[string]*running{}, records: map[string]Record{}, pool: 2, jobs: equal(4)}
		worker := func() string { return fmt.Sprint("w-", rapid.IntRange(0, most-1).Draw(t, "worker")) }
		w.replan(t)
		w.converges(t)
		actions := map[string]func(*rapid.T){
			"scale":  func(t *rapid.T) { w.pool = rapid.IntRange(0, most).Draw(t, "pool"); w.replan(t) },
			"jobs":   func(t *rapid.T) { w.jobs = equal(rapid.IntRange(0, 5).Draw(t, "jobs")); w.replan(t) },
			"replan": func(t *rapid.T) { w.replan(t) },
			"step":   func(*rapid.T) { w.step() },
			"read":   func(*rapid.T) { w.read(worker()) },
			"look":   func(*rapid.T) { w.look(worker()) },
			"toggle": func(*rapid.T) { w.toggle(worker()) },
			"overdue": func(*rapid.T) {
				name := worker()
				r, ok := w.records[name]
				r.Overdue = !r.Overdue
				if ok {
					w.records[name] = r
				}
			},
			"": w.oneOwner,
		}
		t.Repeat(actions)
		w.converges(t)
	})
}

func (w *world) converges(t *rapid.T) {
	for range 4 {
		w.step()
		for n := range most {
			worker := fmt.Sprint("w-", n)
			if w.pods[worker] == nil && n < w.pool {
				w.toggle(worker)
			}
			w.read(worker)
			w.look(worker)
		}
		w.oneOwner(t)
	}
	if last := w.step(); last.Phase != Done {
		t.Fatalf("not converged: %v", last)
	}
	for _, share := range w.plan.Shares() {
		if len(share.Jobs) > 0 && !slices.Equal(w.pods[share.Worker].jobs, share.Jobs) {
			t.Fatalf("%s runs %v, planned %v", share.Worker, w.pods[share.Worker].jobs, share.Jobs)
		}
	}
}
