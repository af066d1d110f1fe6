package workerpool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/assign"
	"github.com/swarm-io/swarm-operator/internal/roster"
)

// refusal is why something is not done, for a condition.
type refusal struct {
	reason  v1alpha1.Reason
	message string
}

func refuse(reason v1alpha1.Reason, format string, arguments ...any) *refusal {
	return &refusal{reason, fmt.Sprintf(format, arguments...)}
}

// jobs are the jobs of a pool as last read.
type jobs struct {
	generation int64
	sources    []v1alpha1.JobSourceStatus
	all        []assign.Job    // owned by the list
	list       *assign.JobList // nil if they could not be read
	refused    *refusal
}

// source is a ConfigMap with jobs, nil if it does not exist.
type source struct {
	key    v1alpha1.ConfigMapKey
	object *corev1.ConfigMap
}

// read returns the jobs of a pool. Unchanged sources are not read again.
func (j jobs) read(pool *v1alpha1.WorkerPool, sources []source) jobs {
	read := jobs{generation: pool.Generation, sources: shown(sources)}
	if (j.list != nil || j.refused != nil) && j.generation == read.generation && slices.Equal(j.sources, read.sources) {
		return j
	}
	all := roster.FromSpec(pool.Spec.Jobs)
	for _, from := range sources {
		more, refused := from.jobs()
		if refused != nil {
			read.refused = refused
			return read
		}
		all = append(all, more...)
	}
	return read.check(all, j.list)
}

// check accepts or refuses the whole list.
func (j jobs) check(all []assign.Job, before *assign.JobList) jobs {
	if before == nil {
		before = &assign.JobList{}
	}
	list, problems := before.Next(all)
	if len(problems) > 0 {
		j.refused = refuse(v1alpha1.ReasonJobsInvalid, "%s: correct the list; until then the assignment stays as it is", problems[0].Reason)
		return j
	}
	j.all, j.list = all, list
	return j
}

func (s source) jobs() ([]assign.Job, *refusal) {
	if s.object == nil {
		return nil, refuse(v1alpha1.ReasonJobsNotFound, "there is no ConfigMap %q: create it, or take it out of jobsFrom", s.key.Name)
	}
	text, found := s.object.Data[s.key.Key]
	if !found {
		return nil, refuse(v1alpha1.ReasonJobsNotFound, "ConfigMap %q has no key %q: add it, or correct jobsFrom", s.key.Name, s.key.Key)
	}
	list, err := roster.ParseJobs(text)
	if err != nil {
		return nil, refuse(v1alpha1.ReasonJobsInvalid, "ConfigMap %q, key %q: %v: correct it; until then the assignment stays as it is", s.key.Name, s.key.Key, err)
	}
	return list, nil
}

// shown returns the sources as shown in status.
func shown(sources []source) []v1alpha1.JobSourceStatus {
	var all []v1alpha1.JobSourceStatus
	for _, from := range sources {
		status := v1alpha1.JobSourceStatus{Name: from.key.Name}
		if from.object != nil {
			sum := sha256.Sum256([]byte(from.object.Data[from.key.Key]))
			status.ResourceVersion, status.Hash = from.object.ResourceVersion, hex.EncodeToString(sum[:8])
		}
		all = append(all, status)
	}
	return all
}
