package main

import (
	"fmt"
	"strconv"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// pool holds the jobs and workers, in the forms that algorithms need.
type pool struct {
	names   []string
	list    *assign.JobList
	workers []assign.Worker
}

// assignment holds the owner of each job.
type assignment struct {
	owners   func() []int32 // the ordinal of each job's worker, by the number of the job; not part of the time
	revision *assign.Revision
}

const none = -1

// jobsOf are the first n jobs.
func jobsOf(n int) []assign.Job {
	jobs := make([]assign.Job, n)
	for at := range jobs {
		jobs[at] = assign.Job{Name: fmt.Sprintf("job-%07d", at), Weight: 1}
	}
	return jobs
}

// workersOf are n workers.
func workersOf(n int) []assign.Worker {
	workers := make([]assign.Worker, n)
	for at := range workers {
		workers[at] = assign.Worker{Name: fmt.Sprintf("worker-%05d", at), Ordinal: at}
	}
	return workers
}

// numberOf reads the number in a name.
func numberOf(name string) int32 {
	const prefix = 4 // of job-; a worker's is longer
	at := prefix
	if name[0] == 'w' {
		at = len("worker-")
	}
	number, err := strconv.Atoi(name[at:])
	if err != nil {
		panic(err) // all names are created here
	}
	return int32(number)
}

func poolOf(jobs []assign.Job, workers []assign.Worker) pool {
	p := pool{names: make([]string, len(jobs)), workers: workers}
	for n := range jobs {
		p.names[n] = jobs[n].Name
	}
	p.list, _ = assign.NewJobList(jobs)
	return p
}

func (p pool) withWorkers(workers []assign.Worker) pool {
	p.workers = workers
	return p
}

func (p pool) workerNames() []string {
	names := make([]string, len(p.workers))
	for n := range p.workers {
		names[n] = p.workers[n].Name
	}
	return names
}

// assignmentByName is the answer of an algorithm that names a worker for each job.
func assignmentByName(names []string) assignment {
	return assignment{owners: func() []int32 {
		owners := make([]int32, len(names))
		for n, name := range names {
			owners[n] = numberOf(name)
		}
		return owners
	}}
}

// assignmentByIndex is the answer of an algorithm that numbers workers by their place.
func assignmentByIndex(places []int32, workers []assign.Worker) assignment {
	return assignment{owners: func() []int32 {
		owners := make([]int32, len(places))
		for n, place := range places {
			owners[n] = int32(workers[place].Ordinal)
		}
		return owners
	}}
}

// assignmentByRevision is our own answer.
func assignmentByRevision(revision *assign.Revision, jobs int) assignment {
	return assignment{revision: revision, owners: func() []int32 {
		owners := make([]int32, jobs)
		for n := range owners {
			owners[n] = none
		}
		for _, share := range revision.Shares() {
			for _, job := range share.Jobs {
				owners[numberOf(job)] = int32(share.Ordinal)
			}
		}
		return owners
	}}
}
