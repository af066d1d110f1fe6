package workerpool

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/assign"
)

// cheap is the deletion cost of a pod of a Deployment whose jobs were revoked: it is deleted first.
const cheap = "-1000000"

// nudge is a patch of a pod: a new version, which makes the kubelet update the file at once; the slot; the deletion cost.
type nudge struct {
	pod         *corev1.Pod
	labels      map[string]string
	annotations map[string]string
	version     string // of the patched pod; "" for none
}

// slot returns the slot in the patch.
func (n nudge) slot() (number int, given bool) {
	number, err := strconv.Atoi(n.labels[v1alpha1.LabelSlot])
	return number, err == nil
}

func (n nudge) String() string { return fmt.Sprint(n.pod.UID, n.labels, n.annotations) }

// again is when a worker that has not acknowledged is nudged once more: the kubelet may have looked before it received the new file.
var again = []time.Duration{4 * time.Second, 12 * time.Second, 28 * time.Second}

// deliver nudges only the pods that do not have the version of their list.
func (d *draft) deliver() {
	if d.Paused {
		return
	}
	records := make(map[string]assign.Record, len(d.records))
	for _, record := range d.records {
		records[record.Worker] = record
	}
	for _, m := range d.crew.members {
		if m.pod != nil {
			d.nudge(d.tidings(m, records[m.Name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.world.released)) {
		d.nudge(d.listOf(d.world.released[name], records[name]))
	}
}

// nudge adds a patch that changes the pod, unless the same one was just sent.
func (d *draft) nudge(tell nudge) {
	switch {
	case len(tell.labels)+len(tell.annotations) > 0:
		if !d.memory.knows(tell, d.now) {
			d.Nudge = append(d.Nudge, tell)
		}
	case !d.world.verified:
		d.memory.told.drop(tell.pod.Name) // the cache has it
	}
}

// tidings returns the patch for a member's pod.
func (d *draft) tidings(m member, record assign.Record) nudge {
	tell := d.listOf(m.pod, record)
	if d.world.workload.slotted() {
		tell.label(v1alpha1.LabelSlot, strconv.Itoa(m.Ordinal))
		if !m.wanted {
			tell.annotate(corev1.PodDeletionCost, cheap)
		}
	}
	return tell
}

// listOf returns the part of the patch that concerns the list.
func (d *draft) listOf(pod *corev1.Pod, record assign.Record) nudge {
	tell := nudge{pod: pod, labels: map[string]string{}, annotations: map[string]string{}}
	if len(record.Lists) == 0 {
		return tell
	}
	version := strconv.FormatInt(record.Lists[len(record.Lists)-1].Version, 10)
	tell.annotate(v1alpha1.AnnotationConfigVersion, version)
	if times := d.insist(record); times > 0 {
		tell.annotate(v1alpha1.AnnotationNudge, fmt.Sprintf("%s.%d", version, times))
	}
	return tell
}

// insist returns how many repeated nudges a worker should have received by now.
func (d *draft) insist(record assign.Record) (times int) {
	if record.IsAcknowledged() || record.PodUID == "" || d.pool.Spec.Refresh.Acknowledge == nil {
		return 0
	}
	waited := d.now.Sub(d.memory.waitingSince(record, d.now))
	for _, after := range again {
		if waited < after {
			d.crew.await(after - waited)
			break
		}
		times++
	}
	return times
}

func (n nudge) annotate(key, value string) {
	if n.pod.Annotations[key] != value {
		n.annotations[key] = value
	}
}

func (n nudge) label(key, value string) {
	if n.pod.Labels[key] != value {
		n.labels[key] = value
	}
}

// eviction is a pod to evict, with the reason and the version of the list that its successor starts with.
type eviction struct {
	pod     *corev1.Pod
	reason  string
	version int64
}

// refresh replaces pods that cannot be updated otherwise: those that lose jobs first, and only as many at a time as may be unavailable.
func (d *draft) refresh() {
	if d.Paused || d.Revision != nil || len(d.Publish) > 0 {
		return // what is published now may make it unnecessary
	}
	away := 0
	for _, m := range d.crew.members {
		if m.wanted && !m.ready {
			away++
		}
	}
	room := int(d.pool.Spec.Refresh.MaxUnavailable) - away
	for _, losing := range []bool{true, false} {
		for _, record := range d.records {
			pod := d.present[record.Worker]
			if pod == nil || (len(record.Lists) > 1) != losing {
				continue
			}
			d.replace(record, pod, &room)
		}
	}
}

// replace evicts a pod if it must go and enough others are ready. A pod that is not ready does not count.
func (d *draft) replace(record assign.Record, pod *corev1.Pod, room *int) {
	if d.memory.leases[record.Worker].shadows(pod) {
		return // another pod would have to wait as well
	}
	reason := d.mustGo(record, pod)
	if reason == "" {
		return
	}
	d.Converged = false
	d.Waiting = slices.DeleteFunc(d.Waiting, func(w assign.PendingWorker) bool { return w.Worker == record.Worker })
	d.Waiting = append(d.Waiting, assign.PendingWorker{Worker: record.Worker, Reason: "its pod is replaced: " + reason})
	if pod.DeletionTimestamp != nil {
		return
	}
	if ready, _ := readiness(pod); ready {
		if *room <= 0 {
			return
		}
		*room--
	}
	d.Evict = append(d.Evict, eviction{pod, reason, record.Lists[len(record.Lists)-1].Version})
}

// mustGo returns why a pod has to be replaced, or "". A pod created after its list was published is not replaced again if it does not
// acknowledge: its successor would not either.
func (d *draft) mustGo(record assign.Record, pod *corev1.Pod) string {
	refresh, account := d.pool.Spec.Refresh, d.ledger[record.Worker]
	switch {
	case account.PodUID == record.PodUID && account.PodUID != "":
		return "only a new pod is sure to have its present list"
	case d.memory.succeeds(pod, record):
		return ""
	case account.PodUID != "" && refresh.Acknowledge == nil && !record.IsAcknowledged():
		return "it may have begun before its present list was published"
	case len(record.Lists) > 1 && d.failed(record.Worker):
		return "it was not ready for too long"
	case refresh.Policy != v1alpha1.RefreshAuto || refresh.Acknowledge == nil || !record.Overdue:
		return ""
	}
	return "it has not acknowledged its list in time"
}

func (d *draft) failed(worker string) bool {
	for _, m := range d.crew.members {
		if m.Name == worker {
			return m.failed && d.crew.frozen == nil
		}
	}
	return false
}

// scale sets the number of pods to that of the pool: at once when it grows, and when the last pods hold nothing any more when it shrinks.
func (d *draft) scale() {
	if d.pool.Spec.Replicas == nil || d.Paused {
		return
	}
	wanted, have := int(*d.pool.Spec.Replicas), d.world.workload.replicas
	if wanted < have {
		wanted = max(wanted, d.occupied()-d.world.workload.start)
	}
	if wanted != have && (wanted > have || d.Revision == nil && len(d.Publish) == 0) {
		d.Scale = new(int32(wanted))
	}
}

// occupied is one above the highest ordinal that may hold jobs. A Deployment shrinks in one step, since it chooses which pods it deletes.
func (d *draft) occupied() int {
	highest := 0
	for _, record := range d.records {
		if len(record.MayHold()) > 0 {
			highest = max(highest, record.Ordinal+1)
		}
	}
	if d.world.workload.slotted() && highest > int(*d.pool.Spec.Replicas) {
		return d.world.workload.replicas
	}
	return highest
}

// clean discards revisions that are neither needed nor within the history limit.
func (d *draft) clean() {
	keep := int(d.pool.Spec.RevisionHistoryLimit) + 1 // and the newest one
	old := d.world.history[:max(0, len(d.world.history)-keep)]
	for _, revision := range old {
		if revision.number < d.pool.Status.ConvergedRevision && revision.number != d.pool.Spec.RollbackTo {
			d.Discard = append(d.Discard, revision)
		}
	}
}

func labelsOf(of workload) string {
	selector, err := metav1.LabelSelectorAsSelector(of.selector)
	if err != nil {
		return ""
	}
	return selector.String()
}
