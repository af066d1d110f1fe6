package workerpool

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/ack"
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
		answer ack.Response
		counts bool
	}{
		"its own":                            {ack.Response{Worker: "w-0", PodUID: "uid-w-0", Version: 5, FileVersion: 5}, true},
		"its own, of a later file":           {ack.Response{Worker: "w-0", PodUID: "uid-w-0", Version: 5, FileVersion: 9}, true},
		"another worker's":                   {ack.Response{Worker: "w-1", PodUID: "uid-w-0", Version: 5, FileVersion: 5}, false},
		"an earlier pod's":                   {ack.Response{Worker: "w-0", PodUID: "uid-before", Version: 5, FileVersion: 5}, false},
		"an earlier version":                 {ack.Response{Worker: "w-0", PodUID: "uid-w-0", Version: 4, FileVersion: 4}, false},
		"a list that is newer than its file": {ack.Response{Worker: "w-0", PodUID: "uid-w-0", Version: 5, FileVersion: 4}, false},
		"none":                               {ack.Response{}, false},
	} {
		t.Run(reason, func(t *testing.T) {
			record, pod := revokedRecord()
			d := &planner{pool: newFakeCluster(1, 1).pool, clocks: &Clocks{},
				snapshot: Snapshot{AckResponses: map[string]ack.Response{"w-0": c.answer}}}
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
			pool := newFakeCluster(1, 1).pool
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

// controlledBy returns a pod of a StatefulSet or ReplicaSet.
func controlledBy(kind, name string, uid types.UID, hash string) *corev1.Pod {
	pod := podNamed("w-0")
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: uid, Controller: new(true)}}
	if hash != "" {
		pod.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash}
	}
	return pod
}

// Pods of other workloads may carry the same labels. They must not be nudged, evicted or counted.
func TestPodsOfOtherWorkloadsAreNotOwned(t *testing.T) {
	newOwner := func(kind v1alpha1.WorkloadKind) Workload {
		return Workload{Kind: kind, Object: &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "w", UID: "uid-w"}}}
	}
	set, deployment := newOwner(v1alpha1.WorkloadStatefulSet), newOwner(v1alpha1.WorkloadDeployment)
	for reason, c := range map[string]struct {
		of       Workload
		pod      *corev1.Pod
		disowned bool
	}{
		"its own":                      {set, controlledBy("StatefulSet", "w", "uid-w", ""), false},
		"without an owner":             {set, podNamed("w-0"), true},
		"another StatefulSet's":        {set, controlledBy("StatefulSet", "v", "uid-v", ""), true},
		"one's that had the same name": {set, controlledBy("StatefulSet", "w", "uid-before", ""), true},
		"a Deployment's of that name":  {set, controlledBy("ReplicaSet", "w-5f", "uid-r", "5f"), true},
		"the Deployment's own":         {deployment, controlledBy("ReplicaSet", "w-5f", "uid-r", "5f"), false},
		"another Deployment's":         {deployment, controlledBy("ReplicaSet", "v-5f", "uid-r", "5f"), true},
		"a StatefulSet's of that name": {deployment, controlledBy("StatefulSet", "w", "uid-w", ""), true},
	} {
		if got := c.of.DoesNotOwn(c.pod); got != c.disowned {
			t.Errorf("%s: disowned %t", reason, got)
		}
	}
}
