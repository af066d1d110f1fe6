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

// JobList is a validated list: unique names, and weights above zero.
type JobList struct {
	jobs          []Job
	dedicated     []int32 // positions, ascending
	uniformWeight int     // weight of every shared job, 0 if they differ
	lightest      int     // of the shared jobs
	heaviest      int
	totalWeight   int // weight of all shared jobs
	hashOnce      sync.Once
	hashes        []uint64
	namesLock     sync.Mutex
	names         map[string]struct{} // passed on to the next list, so that a small change need not hash every name again
	previous      *JobList            // the previous list, which shares head and tail with this one
	commonHead    int
	commonTail    int
}

// NewJobList validates jobs and takes ownership of the slice. It skips jobs with a problem.
func NewJobList(jobs []Job) (*JobList, []Problem) {
	names := make(map[string]struct{}, len(jobs))
	var problems []Problem
	valid := jobs
	for at, job := range jobs {
		if reason := validateJob(job, names); reason != "" {
			if len(problems) == 0 {
				valid = slices.Clone(jobs[:at])
			}
			problems = append(problems, Problem{Index: at, Job: job.Name, Reason: reason})
			continue
		}
		names[job.Name] = struct{}{}
		if len(problems) > 0 {
			valid = append(valid, job)
		}
	}
	return buildJobList(valid, names), problems
}

func validateJob(job Job, names map[string]struct{}) string {
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

func buildJobList(jobs []Job, names map[string]struct{}) *JobList {
	list := &JobList{jobs: jobs, names: names}
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
		list.totalWeight += weight
	}
	if list.lightest == list.heaviest {
		list.uniformWeight = list.lightest
	}
	return list
}

// Next is NewJobList for jobs that differ little from these: names at the same end of both lists are not hashed again.
func (l *JobList) Next(jobs []Job) (*JobList, []Problem) {
	l.namesLock.Lock()
	defer l.namesLock.Unlock()
	if l.names == nil {
		return NewJobList(jobs)
	}
	head, tail := commonEnds(l.jobs, jobs)
	names := l.names
	l.names, l.previous = nil, nil
	for _, job := range l.jobs[head : len(l.jobs)-tail] {
		delete(names, job.Name)
	}
	for _, job := range jobs[head : len(jobs)-tail] {
		if validateJob(job, names) != "" {
			return NewJobList(jobs)
		}
		names[job.Name] = struct{}{}
	}
	next := l.derive(jobs, names, jobs[head:len(jobs)-tail])
	next.previous, next.commonHead, next.commonTail = l, head, tail
	return next, nil
}

// derive validates a list that has only the given others in addition to jobs of l. If all jobs are alike, the rest need not be read.
func (l *JobList) derive(jobs []Job, names map[string]struct{}, others []Job) *JobList {
	differs := func(job Job) bool { return job.Dedicated || int(job.Weight) != l.uniformWeight }
	if l.uniformWeight == 0 || len(l.dedicated) > 0 || len(jobs) == 0 || slices.ContainsFunc(others, differs) {
		return buildJobList(jobs, names)
	}
	return &JobList{jobs: jobs, names: names, uniformWeight: l.uniformWeight, lightest: l.uniformWeight, heaviest: l.uniformWeight,
		totalWeight: l.uniformWeight * len(jobs)}
}

// Len is the number of jobs.
func (l *JobList) Len() int { return len(l.jobs) }

func (l *JobList) sharedCount() int { return len(l.jobs) - len(l.dedicated) }

func (l *JobList) weightOf(at int32) int { return int(l.jobs[at].Weight) }

// load returns the weight of some jobs. If all weights are equal it reads none.
func (l *JobList) load(positions []int32) int {
	if l.uniformWeight > 0 && len(l.dedicated) == 0 {
		return l.uniformWeight * len(positions)
	}
	sum := 0
	for _, at := range positions {
		sum += l.weightOf(at)
	}
	return sum
}
