package assign

import (
	"fmt"
	"slices"
	"sync"
)

// Job is standing work that exactly one worker owns.
type Job struct {
	Name      string
	Weight    int32 // above zero
	Dedicated bool  // needs a worker of its own
}

// Problem is a job that cannot be included in a list.
type Problem struct {
	Index  int // its position in the list
	Job    string
	Reason string
}

// Jobs is a validated list: unique names, and weights above zero.
type Jobs struct {
	jobs      []Job
	dedicated []int32 // positions, ascending
	weight    int     // weight of every shared job, 0 if they differ
	lightest  int     // of the shared jobs
	heaviest  int
	total     int // weight of all shared jobs
	hashed    sync.Once
	hashes    []uint64
	lent      sync.Mutex
	names     map[string]struct{} // passed on to the next list, so that a small change need not hash every name again
	prior     *Jobs               // the previous list, which shares head and tail with this one
	head      int
	tail      int
}

// List validates jobs and takes ownership of the slice. It skips jobs with a problem.
func List(jobs []Job) (*Jobs, []Problem) {
	names := make(map[string]struct{}, len(jobs))
	var problems []Problem
	good := jobs
	for at, job := range jobs {
		if reason := refusal(job, names); reason != "" {
			if len(problems) == 0 {
				good = slices.Clone(jobs[:at])
			}
			problems = append(problems, Problem{Index: at, Job: job.Name, Reason: reason})
			continue
		}
		names[job.Name] = struct{}{}
		if len(problems) > 0 {
			good = append(good, job)
		}
	}
	return checked(good, names), problems
}

func refusal(job Job, names map[string]struct{}) string {
	if job.Name == "" {
		return "a job without a name"
	}
	if job.Weight < 1 {
		return fmt.Sprintf("job %q has weight %d, which must be above zero", job.Name, job.Weight)
	}
	if _, found := names[job.Name]; found {
		return fmt.Sprintf("job %q is in the list twice", job.Name)
	}
	return ""
}

func checked(jobs []Job, names map[string]struct{}) *Jobs {
	list := &Jobs{jobs: jobs, names: names}
	for at := range jobs {
		weight := int(jobs[at].Weight)
		if jobs[at].Dedicated {
			list.dedicated = append(list.dedicated, int32(at))
			continue
		}
		if list.lightest == 0 || weight < list.lightest {
			list.lightest = weight
		}
		list.heaviest = max(list.heaviest, weight)
		list.total += weight
	}
	if list.lightest == list.heaviest {
		list.weight = list.lightest
	}
	return list
}

// Next is List for jobs that differ little from these: names at the same end of both lists are not hashed again.
func (l *Jobs) Next(jobs []Job) (*Jobs, []Problem) {
	l.lent.Lock()
	defer l.lent.Unlock()
	if l.names == nil {
		return List(jobs)
	}
	head, tail := ends(l.jobs, jobs)
	names := l.names
	l.names, l.prior = nil, nil
	for _, job := range l.jobs[head : len(l.jobs)-tail] {
		delete(names, job.Name)
	}
	for _, job := range jobs[head : len(jobs)-tail] {
		if refusal(job, names) != "" {
			return List(jobs)
		}
		names[job.Name] = struct{}{}
	}
	next := l.like(jobs, names, jobs[head:len(jobs)-tail])
	next.prior, next.head, next.tail = l, head, tail
	return next, nil
}

// like validates a list that has only the given others in addition to jobs of l. If all jobs are alike, the rest need not be read.
func (l *Jobs) like(jobs []Job, names map[string]struct{}, others []Job) *Jobs {
	unlike := func(job Job) bool { return job.Dedicated || int(job.Weight) != l.weight }
	if l.weight == 0 || len(l.dedicated) > 0 || len(jobs) == 0 || slices.ContainsFunc(others, unlike) {
		return checked(jobs, names)
	}
	return &Jobs{jobs: jobs, names: names, weight: l.weight, lightest: l.weight, heaviest: l.weight, total: l.weight * len(jobs)}
}

// Len is the number of jobs.
func (l *Jobs) Len() int { return len(l.jobs) }

func (l *Jobs) shared() int { return len(l.jobs) - len(l.dedicated) }

func (l *Jobs) weightOf(at int32) int { return int(l.jobs[at].Weight) }

// load returns the weight of some jobs. If all weights are equal it reads none.
func (l *Jobs) load(positions []int32) int {
	if l.weight > 0 && len(l.dedicated) == 0 {
		return l.weight * len(positions)
	}
	sum := 0
	for _, at := range positions {
		sum += l.weightOf(at)
	}
	return sum
}
