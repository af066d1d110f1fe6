package plan

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

// revokedRecord returns a worker whose job b was revoked, and its pod.
func revokedRecord() (assign.Record, *corev1.Pod) {
	pod := podNamed("w-0")
	lists := []assign.ListVersion{{Version: 4, Jobs: []string{"a", "b"}}, {Version: 5, Jobs: []string{"a"}}}
	return assign.Record{Worker: "w-0", PodUID: string(pod.UID), AcknowledgedVersion: 4, Lists: lists}, pod
}

// A job is free only when the pod that may run it has confirmed that it does not: a wrong answer would give it two owners.
func TestOnlyTheWorkersOwnAnswerCounts(t *testing.T) {
	for reason, c := range map[string]struct {
		answer AckResponse
		counts bool
	}{
		"its own":                            {AckResponse{Worker: "w-0", PodUID: "uid-w-0", Version: 5, FileVersion: 5}, true},
		"its own, of a later file":           {AckResponse{Worker: "w-0", PodUID: "uid-w-0", Version: 5, FileVersion: 9}, true},
		"another worker's":                   {AckResponse{Worker: "w-1", PodUID: "uid-w-0", Version: 5, FileVersion: 5}, false},
		"an earlier pod's":                   {AckResponse{Worker: "w-0", PodUID: "uid-before", Version: 5, FileVersion: 5}, false},
		"an earlier version":                 {AckResponse{Worker: "w-0", PodUID: "uid-w-0", Version: 4, FileVersion: 4}, false},
		"a list that is newer than its file": {AckResponse{Worker: "w-0", PodUID: "uid-w-0", Version: 5, FileVersion: 4}, false},
		"none":                               {AckResponse{}, false},
	} {
		t.Run(reason, func(t *testing.T) {
			record, pod := revokedRecord()
			d := &planner{pool: newPool(), clocks: &Clocks{},
				snapshot: Snapshot{AckResponses: map[string]AckResponse{"w-0": c.answer}}}
			if got := d.applyAcknowledgement(record, pod); got.IsAcknowledged() != c.counts || (len(got.MayHold()) == 1) != c.counts {
				t.Errorf("settled %t, may hold %v", got.IsAcknowledged(), got.MayHold())
			}
		})
	}
}

// A worker that cannot be asked and has to be replaced has given up nothing until its successor exists.
func TestWorkerThatMustBeReplacedIsNotAssumedToHaveLoadedItsList(t *testing.T) {
	record, pod := revokedRecord()
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for reason, c := range map[string]struct {
		replaces types.UID // the pod to be replaced
		seen     PodObservation
		ready    bool
		want     bool
	}{
		"it is still the same pod":        {pod.UID, PodObservation{}, true, false},
		"its successor is there":          {"uid-before", PodObservation{5, "uid-before"}, true, true},
		"its successor is not ready":      {"uid-before", PodObservation{5, "uid-before"}, false, false},
		"the former pod was not seen":     {"uid-before", PodObservation{}, true, false},
		"that was before the latest list": {"uid-before", PodObservation{4, "uid-before"}, true, false},
	} {
		t.Run(reason, func(t *testing.T) {
			pool := newPool()
			pool.Spec.Refresh.Acknowledge = nil
			pool.Status.ConvergedRevision = 1 // not of a known revision
			now, known := time.Now(), &Clocks{}
			known.ObservedPods.Set("w-0", c.seen)
			d := &planner{pool: pool, clocks: known, now: now,
				snapshot: Snapshot{Published: Published{Ledger: codec.Ledger{"w-0": {PodUID: string(c.replaces)}}}}}
			present := pod.DeepCopy()
			if !c.ready {
				present.Status.Conditions = nil
			}
			if got := d.isAssumedLoaded(record, present, 5); got != c.want {
				t.Errorf("assumed: %t", got)
			}
		})
	}
}
