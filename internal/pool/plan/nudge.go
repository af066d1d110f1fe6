package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// lowDeletionCost is the deletion cost of a pod of a Deployment whose jobs were revoked: it is deleted first.
const lowDeletionCost = "-1000000"

// Nudge is a patch of a pod: a new version, which makes the kubelet update the file at once; the slot; the deletion cost.
type Nudge struct {
	Pod             *corev1.Pod
	Labels          map[string]string
	Annotations     map[string]string
	ResourceVersion string // of the patched pod; "" for none
}

// slot returns the slot in the patch.
func (n Nudge) slot() (number int, hasSlot bool) {
	number, err := strconv.Atoi(n.Labels[v1alpha1.LabelSlot])
	return number, err == nil
}

func (n Nudge) String() string { return fmt.Sprint(n.Pod.UID, n.Labels, n.Annotations) }

// renudgeDelays is when a worker that has not acknowledged is nudged once more: the kubelet may have looked before it received the new
// file.
var renudgeDelays = []time.Duration{4 * time.Second, 12 * time.Second, 28 * time.Second}

// planNudges nudges only the pods that do not have the version of their list.
func (p *planner) planNudges() {
	if p.Paused {
		return
	}
	records := make(map[string]assign.Record, len(p.records))
	for _, record := range p.records {
		records[record.Worker] = record
	}
	for _, m := range p.memberSet.members {
		if m.pod != nil {
			p.addNudge(p.memberNudge(m, records[m.Name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.snapshot.ReleasedPods)) {
		p.addNudge(p.listNudge(p.snapshot.ReleasedPods[name], records[name]))
	}
}

// addNudge adds a patch that changes the pod, unless the same one was just sent.
func (p *planner) addNudge(n Nudge) {
	switch {
	case len(n.Labels)+len(n.Annotations) > 0:
		if !p.clocks.wasJustSent(n, p.now) {
			p.Nudges = append(p.Nudges, n)
		}
	case !p.snapshot.PodsVerified:
		p.clocks.lastNudges.remove(n.Pod.Name) // the cache has it
	}
}

// memberNudge returns the patch for a member's pod.
func (p *planner) memberNudge(m member, record assign.Record) Nudge {
	n := p.listNudge(m.pod, record)
	if p.snapshot.Workload.usesSlots() {
		n.label(v1alpha1.LabelSlot, strconv.Itoa(m.Ordinal))
		if !m.wanted {
			n.annotate(corev1.PodDeletionCost, lowDeletionCost)
		}
	}
	return n
}

// listNudge returns the part of the patch that concerns the list.
func (p *planner) listNudge(pod *corev1.Pod, record assign.Record) Nudge {
	n := Nudge{Pod: pod, Labels: map[string]string{}, Annotations: map[string]string{}}
	if len(record.Lists) == 0 {
		return n
	}
	version := strconv.FormatInt(record.Lists[len(record.Lists)-1].Version, 10)
	n.annotate(v1alpha1.AnnotationConfigVersion, version)
	if count := p.renudges(record); count > 0 {
		n.annotate(v1alpha1.AnnotationNudge, fmt.Sprintf("%s.%d", version, count))
	}
	return n
}

// renudges returns how many repeated nudges a worker should have received by now.
func (p *planner) renudges(record assign.Record) (count int) {
	if record.IsAcknowledged() || record.PodUID == "" || p.pool.Spec.Refresh.Acknowledge == nil {
		return 0
	}
	waited := p.now.Sub(p.clocks.waitingSince(record, p.now))
	for _, delay := range renudgeDelays {
		if waited < delay {
			p.memberSet.requeueWithin(delay - waited)
			break
		}
		count++
	}
	return count
}

func (n Nudge) annotate(key, value string) {
	if n.Pod.Annotations[key] != value {
		n.Annotations[key] = value
	}
}

func (n Nudge) label(key, value string) {
	if n.Pod.Labels[key] != value {
		n.Labels[key] = value
	}
}
