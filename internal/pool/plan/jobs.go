package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

// Problem is why something is not done, for a condition.
type Problem struct {
	Reason  v1alpha1.Reason
	Message string
}

func NewProblem(reason v1alpha1.Reason, format string, arguments ...any) *Problem {
	return &Problem{reason, fmt.Sprintf(format, arguments...)}
}

// Jobs are the jobs of a pool as last read.
type Jobs struct {
	generation int64
	sources    []v1alpha1.JobSourceStatus
	Jobs       []assign.Job    // owned by the list
	list       *assign.JobList // nil if they could not be read
	Problem    *Problem
}

// JobSource is a ConfigMap with jobs, nil if it does not exist.
type JobSource struct {
	Key       v1alpha1.ConfigMapKey
	ConfigMap *corev1.ConfigMap
}

// NewJobs returns a list of jobs that comes from no ConfigMap.
func NewJobs(jobs []assign.Job) Jobs { return Jobs{}.check(jobs, nil) }

// Update returns the jobs of a pool. Unchanged sources are not read again.
func (j Jobs) Update(pool *v1alpha1.WorkerPool, sources []JobSource) Jobs {
	next := Jobs{generation: pool.Generation, sources: sourceStatuses(sources)}
	if (j.list != nil || j.Problem != nil) && j.generation == next.generation && slices.Equal(j.sources, next.sources) {
		return j
	}
	jobs := codec.FromSpec(pool.Spec.Jobs)
	for _, source := range sources {
		parsed, problem := source.parse()
		if problem != nil {
			next.Problem = problem
			return next
		}
		jobs = append(jobs, parsed...)
	}
	return next.check(jobs, j.list)
}

// check accepts or refuses the whole list.
func (j Jobs) check(jobs []assign.Job, previous *assign.JobList) Jobs {
	if previous == nil {
		previous = &assign.JobList{}
	}
	list, problems := previous.Next(jobs)
	if len(problems) > 0 {
		j.Problem = NewProblem(v1alpha1.ReasonJobsInvalid, "%s: correct the list; until then the assignment stays as it is", problems[0].Reason)
		return j
	}
	j.Jobs, j.list = jobs, list
	return j
}

func (s JobSource) parse() ([]assign.Job, *Problem) {
	if s.ConfigMap == nil {
		return nil, NewProblem(v1alpha1.ReasonJobsNotFound, "there is no ConfigMap %q: create it, or take it out of jobsFrom", s.Key.Name)
	}
	text, found := s.ConfigMap.Data[s.Key.Key]
	if !found {
		return nil, NewProblem(v1alpha1.ReasonJobsNotFound, "ConfigMap %q has no key %q: add it, or correct jobsFrom", s.Key.Name, s.Key.Key)
	}
	list, err := codec.ParseJobs(text)
	if err != nil {
		return nil, NewProblem(v1alpha1.ReasonJobsInvalid, "ConfigMap %q, key %q: %v: correct it; until then the assignment stays as it is",
			s.Key.Name, s.Key.Key, err)
	}
	return list, nil
}

// sourceStatuses returns the sources as shown in status.
func sourceStatuses(sources []JobSource) []v1alpha1.JobSourceStatus {
	var statuses []v1alpha1.JobSourceStatus
	for _, source := range sources {
		status := v1alpha1.JobSourceStatus{Name: source.Key.Name}
		if source.ConfigMap != nil {
			sum := sha256.Sum256([]byte(source.ConfigMap.Data[source.Key.Key]))
			status.ResourceVersion, status.Hash = source.ConfigMap.ResourceVersion, hex.EncodeToString(sum[:8])
		}
		statuses = append(statuses, status)
	}
	return statuses
}
