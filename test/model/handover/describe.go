package handover

import (
	"fmt"

	"github.com/swarm-io/swarm-operator/test/model/explore"
)

var sentences = map[uint8]string{
	plan:             "the pool plans to give the job to %s",
	deletePod:        "%s is deleted",
	endPod:           "the process of %s has ended, and its pod is gone",
	releasePod:       "the labels of %s are changed, and its workload lets it go",
	adoptPod:         "the workload adopts %s",
	loseNode:         "the node of %s is taken for lost, and its phase becomes Failed; its process lives on",
	restartContainer: "the container of %s restarts",
	admitPod:         "the next pod, %s, is admitted, and not stored yet",
	failCreate:       "the create of %s fails, or never arrives",
	stopJob:          "%s stops the job",
	syncCache:        "the caches of %s hear of the newest objects",
	beginTerm:        "%s begins its term",
	applyWrite:       "the write of %s reaches the API server",
	applyLateWrite:   "the late write of %s reaches the API server",
	loseLateWrite:    "the late write of %s never arrives",
}

// Describe describes a step from the state in a sentence.
func (m Model) Describe(s state, step explore.Step) string {
	cached := &s.caches[s.leader].config
	switch step.Action {
	case changeLeader:
		return fmt.Sprintf("%s takes the Lease", replicaName(1-s.leader))
	case orphanPods:
		return "the workload is deleted, and its pods become orphans"
	case createPod:
		return fmt.Sprintf("%s is stored, and runs on a node whose kubelet has %s", m.podName(2), m.firstFile(s, step.Detail))
	case syncFile:
		return fmt.Sprintf("the kubelet brings %s to %s", s.config.records[m.Scenario.workerOf(step.Subject)].list, m.podName(step.Subject))
	case loadFile:
		return fmt.Sprintf("%s loads %s", m.podName(step.Subject), s.pods[step.Subject].file)
	case createConfigMap:
		return fmt.Sprintf("%s creates an empty ConfigMap for %s", replicaName(s.leader), workerName(cached.target))
	case grant:
		return fmt.Sprintf("%s writes the list with the job for %s", replicaName(s.leader), workerName(cached.target))
	case revoke:
		return fmt.Sprintf("%s writes a list without the job", replicaName(s.leader))
	}
	return fmt.Sprintf(sentences[step.Action], m.subject(step))
}

func (m Model) subject(step explore.Step) string {
	switch step.Action {
	case plan:
		return workerName(step.Subject)
	case syncCache, beginTerm, applyWrite, applyLateWrite, loseLateWrite:
		return replicaName(step.Subject)
	}
	return m.podName(step.Subject)
}

func (m Model) firstFile(s state, older uint8) list {
	worker := m.Scenario.workerOf(2)
	if older == 1 {
		return s.previous[worker]
	}
	return s.config.records[worker].list
}

func (l list) String() string {
	switch {
	case l.version == 0:
		return "no list"
	case l.hasJob:
		return fmt.Sprintf("list %d (with the job)", l.version)
	}
	return fmt.Sprintf("list %d (without the job)", l.version)
}

func replicaName(n uint8) string { return fmt.Sprintf("operator-%d", n+1) }

func workerName(n uint8) string { return fmt.Sprintf("w-%d", n) }

// podName distinguishes the second pod of a StatefulSet's worker from the first.
func (m Model) podName(n uint8) string {
	if n == 2 && !m.Scenario.Deployment {
		return "w-0'"
	}
	return workerName(n)
}
