package plan

import (
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// Snapshot is the observed state of a pool.
type Snapshot struct {
	Problem      *Problem // why nothing can be done
	Jobs         Jobs
	Workload     Workload
	Pods         []*corev1.Pod          // of the workload, unordered; from the cache, so they must not be modified
	PodsVerified bool                   // the pods were read past the cache, after the published lists
	GoneWorkers  map[string]bool        // workers without a pod of their name, as the API server reported then
	ReleasedPods map[string]*corev1.Pod // workers' pods that exist but no longer belong to the workload, by name
	History      []StoredRevision       // by number
	Published    Published
	AckResponses map[string]AckResponse // by worker
	AllPolled    bool                   // every worker was asked at least once
}

// rollbackChoices lists the stored revisions.
func (s Snapshot) rollbackChoices() string {
	var numbers []string
	for _, revision := range s.History {
		numbers = append(numbers, fmt.Sprint(revision.Number))
	}
	return "choose one of " + strings.Join(numbers, ", ") + ", or remove rollbackTo"
}

// GoneHolders returns workers whose pod is missing or was replaced while others wait for their jobs. The pods were read before; a process
// that is not in one of them, and acquires its Lease later, finds its pod gone.
func (s Snapshot) GoneHolders(clocks *Clocks) []string {
	if !s.PodsVerified && !s.Published.hasUnreleasedJobs() {
		return nil
	}
	var names []string
	holderPods := s.holderPods()
	for _, record := range s.Published.Records(s.Workload) {
		pod := holderPods[record.Worker]
		if s.GoneWorkers[record.Worker] || pod != nil && len(record.Lists) > 1 && clocks.isSuccessor(pod, record) {
			names = append(names, record.Worker)
		}
	}
	return names
}

// absenceFreesJobs reports whether others could get jobs of a worker if its pod were gone: jobs were revoked, or no pod will return under
// its name.
func (s Snapshot) absenceFreesJobs(record assign.Record) bool {
	temporary := s.Workload.usesSlots() || !s.Workload.expectsOrdinal(record.Ordinal)
	return len(record.Lists) > 1 || temporary && len(record.Current()) > 0
}

// newestRevision returns the newest revision, nil if there is none.
func (s Snapshot) newestRevision() *assign.Revision {
	if len(s.History) == 0 {
		return nil
	}
	return s.History[len(s.History)-1].Index
}

// wantedReplicas returns the number of workers: the pool's while it scales in, otherwise the workload's.
func (s Snapshot) wantedReplicas(pool *v1alpha1.WorkerPool) int {
	if pool.Spec.Replicas != nil {
		return min(int(*pool.Spec.Replicas), s.Workload.Replicas)
	}
	return s.Workload.Replicas
}

// knownOrdinals returns the ordinals that are in any stored revision.
func (s Snapshot) knownOrdinals() map[int]bool {
	ordinals := map[int]bool{}
	for _, revision := range s.History {
		for _, share := range revision.Data.Workers {
			ordinals[share.Ordinal] = true
		}
	}
	return ordinals
}

// NeedsLiveRead reports whether the cache is not sufficient: a worker that may hold revoked jobs seems to be gone, or was not seen since
// its list was published although only its replacement can prove anything.
func (s Snapshot) NeedsLiveRead(pool *v1alpha1.WorkerPool, clocks *Clocks) bool {
	podsByName := s.podsByName()
	for _, record := range s.Published.Records(s.Workload) {
		entry := s.Published.Ledger[record.Worker]
		pod := podsByName[record.Worker]
		if pod == nil && s.absenceFreesJobs(record) {
			return true
		}
		version := record.Lists[len(record.Lists)-1].Version
		if pod != nil && pool.Spec.Refresh.Acknowledge == nil && entry.PodUID != "" && clocks.ObservedPods[record.Worker].ListVersion != version {
			return true
		}
	}
	return false
}

// RecordPods records the pods that existed after the current lists were published.
func (s Snapshot) RecordPods(clocks *Clocks) {
	holderPods := s.holderPods()
	for _, entry := range s.Published.Entries {
		pod := holderPods[entry.Worker]
		if pod != nil && clocks.ObservedPods[entry.Worker].ListVersion != entry.Version {
			clocks.ObservedPods.Set(entry.Worker, PodObservation{entry.Version, string(pod.UID)})
		}
	}
}

// AckTargets returns a question for each worker that has a list and can be asked.
func (s Snapshot) AckTargets(pool *v1alpha1.WorkerPool) []AckTarget {
	spec := pool.Spec.Refresh.Acknowledge
	if spec == nil {
		return nil
	}
	holderPods := s.holderPods()
	var targets []AckTarget
	for _, entry := range s.Published.Entries {
		if pod := holderPods[entry.Worker]; pod != nil && pod.Status.PodIP != "" {
			targets = append(targets, AckTarget{
				Worker: entry.Worker, PodUID: string(pod.UID), Version: entry.Version, URL: ackURL(pod.Status.PodIP, spec.HTTPGet),
			})
		}
	}
	return targets
}

func (s Snapshot) podsByName() map[string]*corev1.Pod {
	pods := make(map[string]*corev1.Pod, len(s.Pods))
	for _, pod := range s.Pods {
		pods[pod.Name] = pod
	}
	return pods
}

// newestNumber returns the number of the newest stored revision, 0 for none.
func (s Snapshot) newestNumber() int64 {
	if len(s.History) == 0 {
		return 0
	}
	return s.History[len(s.History)-1].Number
}

// AbsentWorkers returns the workers that have no pod in the workload and whose absence would free jobs.
func (s Snapshot) AbsentWorkers() []string {
	var names []string
	podsByName := s.podsByName()
	for _, record := range s.Published.Records(s.Workload) {
		if podsByName[record.Worker] == nil && s.absenceFreesJobs(record) {
			names = append(names, record.Worker)
		}
	}
	return names
}

// ClassifyAbsent sorts the absent workers into those whose pod is gone, those whose pod left the workload, and those whose pod is new.
func (s *Snapshot) ClassifyAbsent(podsByName map[string]*corev1.Pod) {
	s.GoneWorkers, s.ReleasedPods = map[string]bool{}, map[string]*corev1.Pod{}
	for _, name := range s.AbsentWorkers() {
		switch pod := podsByName[name]; {
		case pod == nil:
			s.GoneWorkers[name] = true
		case s.Workload.DoesNotOwn(pod):
			s.ReleasedPods[name] = pod
		default:
			s.Pods = append(s.Pods, pod)
		}
	}
}

// holderPods returns the pods that may hold jobs, by name: those of the workload, and those that left it.
func (s Snapshot) holderPods() map[string]*corev1.Pod {
	pods := s.podsByName()
	maps.Copy(pods, s.ReleasedPods)
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
