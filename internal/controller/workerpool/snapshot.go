package workerpool

import (
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/ack"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// rollbackChoices lists the stored revisions.
func (s poolSnapshot) rollbackChoices() string {
	var numbers []string
	for _, revision := range s.history {
		numbers = append(numbers, fmt.Sprint(revision.number))
	}
	return "choose one of " + strings.Join(numbers, ", ") + ", or remove rollbackTo"
}

// goneHolders returns workers whose pod is missing or was replaced while others wait for their jobs. The pods were read before; a process
// that is not in one of them, and acquires its Lease later, finds its pod gone.
func (s poolSnapshot) goneHolders(clocks *clocks) []string {
	if !s.podsVerified && !s.published.hasUnreleasedJobs() {
		return nil
	}
	var names []string
	holderPods := s.holderPods()
	for _, record := range s.published.records(s.workload) {
		pod := holderPods[record.Worker]
		if s.goneWorkers[record.Worker] || pod != nil && len(record.Lists) > 1 && clocks.isSuccessor(pod, record) {
			names = append(names, record.Worker)
		}
	}
	return names
}

// absenceFreesJobs reports whether others could get jobs of a worker if its pod were gone: jobs were revoked, or no pod will return under
// its name.
func (s poolSnapshot) absenceFreesJobs(record assign.Record) bool {
	temporary := s.workload.usesSlots() || !s.workload.expectsOrdinal(record.Ordinal)
	return len(record.Lists) > 1 || temporary && len(record.Current()) > 0
}

// newestRevision returns the newest revision, nil if there is none.
func (s poolSnapshot) newestRevision() *assign.Revision {
	if len(s.history) == 0 {
		return nil
	}
	return s.history[len(s.history)-1].index
}

// wantedReplicas returns the number of workers: the pool's while it scales in, otherwise the workload's.
func (s poolSnapshot) wantedReplicas(pool *v1alpha1.WorkerPool) int {
	if pool.Spec.Replicas != nil {
		return min(int(*pool.Spec.Replicas), s.workload.replicas)
	}
	return s.workload.replicas
}

// knownOrdinals returns the ordinals that are in any stored revision.
func (s poolSnapshot) knownOrdinals() map[int]bool {
	ordinals := map[int]bool{}
	for _, revision := range s.history {
		for _, share := range revision.data.Workers {
			ordinals[share.Ordinal] = true
		}
	}
	return ordinals
}

// poolSnapshot is the observed state of a pool.
type poolSnapshot struct {
	problem      *problem // why nothing can be done
	jobs         poolJobs
	workload     poolWorkload
	pods         []*corev1.Pod          // of the workload, unordered; from the cache, so they must not be modified
	podsVerified bool                   // the pods were read past the cache, after the published lists
	goneWorkers  map[string]bool        // workers without a pod of their name, as the API server reported then
	releasedPods map[string]*corev1.Pod // workers' pods that exist but no longer belong to the workload, by name
	history      []storedRevision       // by number
	published    publishedConfig
	ackResponses map[string]ack.Response // by worker
	allPolled    bool                    // every worker was asked at least once
}

// needsLiveRead reports whether the cache is not sufficient: a worker that may hold revoked jobs seems to be gone, or was not seen since
// its list was published although only its replacement can prove anything.
func (s poolSnapshot) needsLiveRead(pool *v1alpha1.WorkerPool, clocks *clocks) bool {
	podsByName := s.podsByName()
	for _, record := range s.published.records(s.workload) {
		entry := s.published.ledger[record.Worker]
		pod := podsByName[record.Worker]
		if pod == nil && s.absenceFreesJobs(record) {
			return true
		}
		version := record.Lists[len(record.Lists)-1].Version
		if pod != nil && pool.Spec.Refresh.Acknowledge == nil && entry.PodUID != "" && clocks.observedPods[record.Worker].listVersion != version {
			return true
		}
	}
	return false
}

// recordPods records the pods that existed after the current lists were published.
func (s poolSnapshot) recordPods(clocks *clocks) {
	holderPods := s.holderPods()
	for _, entry := range s.published.entries {
		pod := holderPods[entry.Worker]
		if pod != nil && clocks.observedPods[entry.Worker].listVersion != entry.Version {
			clocks.observedPods.set(entry.Worker, podObservation{entry.Version, string(pod.UID)})
		}
	}
}

// ackTargets returns a question for each worker that has a list and can be asked.
func (s poolSnapshot) ackTargets(pool *v1alpha1.WorkerPool) []ack.Target {
	spec := pool.Spec.Refresh.Acknowledge
	if spec == nil {
		return nil
	}
	holderPods := s.holderPods()
	var targets []ack.Target
	for _, entry := range s.published.entries {
		if pod := holderPods[entry.Worker]; pod != nil && pod.Status.PodIP != "" {
			targets = append(targets, ack.Target{
				Worker: entry.Worker, PodUID: string(pod.UID), Version: entry.Version, URL: ackURL(pod.Status.PodIP, spec.HTTPGet),
			})
		}
	}
	return targets
}

func (s poolSnapshot) podsByName() map[string]*corev1.Pod {
	pods := make(map[string]*corev1.Pod, len(s.pods))
	for _, pod := range s.pods {
		pods[pod.Name] = pod
	}
	return pods
}

// newestNumber returns the number of the newest stored revision, 0 for none.
func (s poolSnapshot) newestNumber() int64 {
	if len(s.history) == 0 {
		return 0
	}
	return s.history[len(s.history)-1].number
}

// absentWorkers returns the workers that have no pod in the workload and whose absence would free jobs.
func (s poolSnapshot) absentWorkers() []string {
	var names []string
	podsByName := s.podsByName()
	for _, record := range s.published.records(s.workload) {
		if podsByName[record.Worker] == nil && s.absenceFreesJobs(record) {
			names = append(names, record.Worker)
		}
	}
	return names
}

// classifyAbsent sorts the absent workers into those whose pod is gone, those whose pod left the workload, and those whose pod is new.
func (s *poolSnapshot) classifyAbsent(podsByName map[string]*corev1.Pod) {
	s.goneWorkers, s.releasedPods = map[string]bool{}, map[string]*corev1.Pod{}
	for _, name := range s.absentWorkers() {
		switch pod := podsByName[name]; {
		case pod == nil:
			s.goneWorkers[name] = true
		case s.workload.doesNotOwn(pod):
			s.releasedPods[name] = pod
		default:
			s.pods = append(s.pods, pod)
		}
	}
}

// holderPods returns the pods that may hold jobs, by name: those of the workload, and those that left it.
func (s poolSnapshot) holderPods() map[string]*corev1.Pod {
	pods := s.podsByName()
	maps.Copy(pods, s.releasedPods)
	return pods
}

// ackURL returns the URL at which a worker is asked.
func ackURL(ip string, httpGet v1alpha1.AcknowledgeHTTPGet) string {
	path := httpGet.Path
	if path == "" {
		path = "/internal/version"
	}
	return "http://" + net.JoinHostPort(ip, strconv.Itoa(int(httpGet.Port))) + path
}
