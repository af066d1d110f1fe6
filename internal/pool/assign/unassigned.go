package assign

import (
	"fmt"
	"slices"
)

// listUnassigned returns the jobs without a worker, each with the reason.
func (s *solver) listUnassigned() []Unassigned {
	jobs := slices.Concat(s.unplacedShared, s.unplacedDedicated)
	if len(jobs) == 0 {
		return nil
	}
	slices.Sort(jobs)
	noWorker := s.noWorkerReason()
	load, capacity := s.sharedLoad()
	unassigned := make([]Unassigned, len(jobs))
	for n, at := range jobs {
		job := s.list.jobs[at]
		reason := noWorker
		switch {
		case reason != "":
		case job.Dedicated:
			reason = s.noDedicatedReason(job)
		default:
			reason = fmt.Sprintf("it weighs %d, and no worker has that much room left: %d of %d are taken on the %s that share jobs",
				job.Weight, load, capacity, pluralize(s.sharedWorkerCount(), "worker"))
		}
		unassigned[n] = Unassigned{Job: job.Name, Reason: reason}
	}
	return unassigned
}

// noWorkerReason explains why no worker can take a job, or returns "".
func (s *solver) noWorkerReason() string {
	if len(s.workers) == 0 {
		return "the pool has no workers"
	}
	if slices.ContainsFunc(s.active, func(w workerInfo) bool { return !w.frozen }) {
		return ""
	}
	leaving := 0
	for _, worker := range s.workers {
		if worker.State == Leaving {
			leaving++
		}
	}
	return fmt.Sprintf("none of the %s can take a job: %d leaving, %d not ready", pluralize(len(s.workers), "worker"), leaving,
		len(s.workers)-leaving)
}

// noDedicatedReason explains why a dedicated job has no worker.
func (s *solver) noDedicatedReason(job Job) string {
	fits := slices.ContainsFunc(s.active, func(w workerInfo) bool { return w.Capacity == 0 || int(job.Weight) <= w.Capacity })
	if !fits {
		largest := 0
		for _, info := range s.active {
			largest = max(largest, info.Capacity)
		}
		return fmt.Sprintf("it weighs %d, and no worker has a capacity above %d", job.Weight, largest)
	}
	reason := fmt.Sprintf("it needs a worker of its own: there are %s and %s", pluralize(len(s.list.dedicated), "dedicated job"),
		pluralize(len(s.active), "worker"))
	if s.list.sharedCount() > 0 {
		reason += ", one of which is left to the shared jobs"
	}
	return reason
}

// sharedLoad returns the load and the capacity of the workers that share jobs.
func (s *solver) sharedLoad() (load, capacity int) {
	for n := range s.active {
		if info := &s.active[n]; info.dedicatedJob == none {
			load += info.load
			capacity += info.Capacity
		}
	}
	return load, capacity
}

func (s *solver) sharedWorkerCount() int {
	count := 0
	for n := range s.active {
		if s.active[n].dedicatedJob == none {
			count++
		}
	}
	return count
}

func pluralize(number int, noun string) string {
	if number == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", number, noun)
}
