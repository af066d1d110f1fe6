package assign

import (
	"fmt"
	"slices"
)

// unassigned returns the jobs without a worker, each with the reason.
func (p *pass) unassigned() []Unassigned {
	jobs := slices.Concat(p.left, p.crowded)
	if len(jobs) == 0 {
		return nil
	}
	slices.Sort(jobs)
	nowhere := p.nowhere()
	taken, capacity := p.room()
	unassigned := make([]Unassigned, len(jobs))
	for n, at := range jobs {
		job := p.list.jobs[at]
		reason := nowhere
		switch {
		case reason != "":
		case job.Dedicated:
			reason = p.noHost(job)
		default:
			reason = fmt.Sprintf("it weighs %d, and no worker has that much room left: %d of %d are taken on the %s that share jobs",
				job.Weight, taken, capacity, count(p.sharing(), "worker"))
		}
		unassigned[n] = Unassigned{Job: job.Name, Reason: reason}
	}
	return unassigned
}

// nowhere explains why no worker can take a job, or returns "".
func (p *pass) nowhere() string {
	if len(p.workers) == 0 {
		return "the pool has no workers"
	}
	if slices.ContainsFunc(p.seats, func(s seat) bool { return !s.still }) {
		return ""
	}
	leaving := 0
	for _, worker := range p.workers {
		if worker.State == Leaving {
			leaving++
		}
	}
	return fmt.Sprintf("none of the %s can take a job: %d leaving, %d not ready", count(len(p.workers), "worker"), leaving, len(p.workers)-leaving)
}

// noHost explains why a dedicated job has no worker.
func (p *pass) noHost(job Job) string {
	fits := slices.ContainsFunc(p.seats, func(s seat) bool { return s.Capacity == 0 || int(job.Weight) <= s.Capacity })
	if !fits {
		largest := 0
		for _, at := range p.seats {
			largest = max(largest, at.Capacity)
		}
		return fmt.Sprintf("it weighs %d, and no worker has a capacity above %d", job.Weight, largest)
	}
	reason := fmt.Sprintf("it needs a worker of its own: there are %s and %s", count(len(p.list.dedicated), "dedicated job"), count(len(p.seats), "worker"))
	if p.list.shared() > 0 {
		reason += ", one of which is left to the shared jobs"
	}
	return reason
}

// room returns the load and the capacity of the workers that share jobs.
func (p *pass) room() (taken, capacity int) {
	for n := range p.seats {
		if at := &p.seats[n]; at.hosts == nobody {
			taken += at.load
			capacity += at.Capacity
		}
	}
	return taken, capacity
}

func (p *pass) sharing() int {
	sharing := 0
	for n := range p.seats {
		if p.seats[n].hosts == nobody {
			sharing++
		}
	}
	return sharing
}

func count(number int, noun string) string {
	if number == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", number, noun)
}
