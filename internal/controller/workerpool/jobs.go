package workerpool

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

// problem is why something is not done, for a condition.
type problem struct {
	reason  v1alpha1.Reason
	message string
}

func newProblem(reason v1alpha1.Reason, format string, arguments ...any) *problem {
	return &problem{reason, fmt.Sprintf(format, arguments...)}
}

// poolJobs are the jobs of a pool as last read.
type poolJobs struct {
	generation int64
	sources    []v1alpha1.JobSourceStatus
	jobs       []assign.Job    // owned by the list
	list       *assign.JobList // nil if they could not be read
	problem    *problem
}

// jobSource is a ConfigMap with jobs, nil if it does not exist.
type jobSource struct {
	key       v1alpha1.ConfigMapKey
	configMap *corev1.ConfigMap
}

// update returns the jobs of a pool. Unchanged sources are not read again.
func (j poolJobs) update(pool *v1alpha1.WorkerPool, sources []jobSource) poolJobs {
	next := poolJobs{generation: pool.Generation, sources: sourceStatuses(sources)}
	if (j.list != nil || j.problem != nil) && j.generation == next.generation && slices.Equal(j.sources, next.sources) {
		return j
	}
	jobs := codec.FromSpec(pool.Spec.Jobs)
	for _, source := range sources {
		parsed, problem := source.parse()
		if problem != nil {
			next.problem = problem
			return next
		}
		jobs = append(jobs, parsed...)
	}
	return next.check(jobs, j.list)
}

// check accepts or refuses the whole list.
func (j poolJobs) check(jobs []assign.Job, previous *assign.JobList) poolJobs {
	if previous == nil {
		previous = &assign.JobList{}
	}
	list, problems := previous.Next(jobs)
	if len(problems) > 0 {
		j.problem = newProblem(v1alpha1.ReasonJobsInvalid, "%s: correct the list; until then the assignment stays as it is", problems[0].Reason)
		return j
	}
	j.jobs, j.list = jobs, list
	return j
}

func (s jobSource) parse() ([]assign.Job, *problem) {
	if s.configMap == nil {
		return nil, newProblem(v1alpha1.ReasonJobsNotFound, "there is no ConfigMap %q: create it, or take it out of jobsFrom", s.key.Name)
	}
	text, found := s.configMap.Data[s.key.Key]
	if !found {
		return nil, newProblem(v1alpha1.ReasonJobsNotFound, "ConfigMap %q has no key %q: add it, or correct jobsFrom", s.key.Name, s.key.Key)
	}
	list, err := codec.ParseJobs(text)
	if err != nil {
		return nil, newProblem(v1alpha1.ReasonJobsInvalid, "ConfigMap %q, key %q: %v: correct it; until then the assignment stays as it is",
			s.key.Name, s.key.Key, err)
	}
	return list, nil
}

// sourceStatuses returns the sources as shown in status.
func sourceStatuses(sources []jobSource) []v1alpha1.JobSourceStatus {
	var statuses []v1alpha1.JobSourceStatus
	for _, source := range sources {
		status := v1alpha1.JobSourceStatus{Name: source.key.Name}
		if source.configMap != nil {
			sum := sha256.Sum256([]byte(source.configMap.Data[source.key.Key]))
			status.ResourceVersion, status.Hash = source.configMap.ResourceVersion, hex.EncodeToString(sum[:8])
		}
		statuses = append(statuses, status)
	}
	return statuses
}
