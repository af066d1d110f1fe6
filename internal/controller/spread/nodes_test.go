package spread

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	"github.com/swarm-io/swarm-operator/internal/spread/state"
)

func readyNode(name string, class split.Class, edits ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"class": string(class)}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(noon)}}
	for _, edit := range edits {
		edit(node)
	}
	return node
}

func withCordon(node *corev1.Node) { node.Spec.Unschedulable = true }
func withNotice(node *corev1.Node) {
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "going", Effect: corev1.TaintEffectNoSchedule})
}
func withTaint(node *corev1.Node) {
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "starting", Effect: corev1.TaintEffectNoSchedule})
}
func inZone(node *corev1.Node) { node.Labels["zone"] = "a" }
func withHeartbeat(node *corev1.Node) {
	node.ResourceVersion, node.Status.Conditions[0].LastHeartbeatTime = "2", metav1.NewTime(noon.Add(time.Minute))
}
func beingDeleted(node *corev1.Node) { node.DeletionTimestamp = &metav1.Time{Time: noon} }

func TestNodeAvailability(t *testing.T) {
	spot := func(edits ...func(*corev1.Node)) *corev1.Node { return readyNode("n", split.Spot, edits...) }
	for name, test := range map[string]struct {
		before, after *corev1.Node
		heard         bool // is queued
		woken         bool // matters to workloads
		returned      bool
	}{
		"heartbeat":           {spot(), spot(withHeartbeat), false, false, false},
		"label":               {spot(), spot(inZone), true, false, false},
		"cordoned":            {spot(), spot(withCordon), true, true, false},
		"uncordoned":          {spot(withCordon), spot(), true, true, true},
		"notice":              {spot(), spot(withNotice), true, true, false},
		"notice taken back":   {spot(withNotice), spot(), true, true, true},
		"taint":               {spot(), spot(withTaint), true, true, false},
		"taint taken off":     {spot(withTaint), spot(), true, true, true},
		"other class":         {readyNode("n", split.OnDemand), spot(), true, true, true},
		"new":                 {nil, spot(), true, true, true},
		"new and closed":      {nil, spot(withCordon), true, true, false},
		"being deleted":       {spot(), spot(beingDeleted), true, true, false},
		"still being deleted": {spot(beingDeleted), spot(beingDeleted, withHeartbeat), false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			later := noon.Add(time.Hour)
			n := &nodeTracker{settings: settings, onChange: func() {}, now: func() time.Time { return later },
				current: &state.Nodes{ByName: map[string]snapshot.Node{}}, deletedNodes: map[string]bool{}}
			if test.before != nil {
				n.current = &state.Nodes{ByName: map[string]snapshot.Node{"n": settings.Node(test.before)}}
				if passes := n.nodeChanged().Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); passes != test.heard {
					t.Errorf("heard %t", passes)
				}
			}
			if _, err := n.Reconcile(t.Context(), test.after); err != nil {
				t.Fatal(err)
			}
			if n.notifyPending != test.woken || n.latest().SpotAvailableAt.Equal(later) != test.returned {
				t.Errorf("woken %t, returned %s", n.notifyPending, n.latest().SpotAvailableAt)
			}
		})
	}
}

// The deadline of a node counts from when its interruption notice was first seen, not from an earlier cordon.
func TestInterruptionTimeIsRecordedOnce(t *testing.T) {
	now := noon
	n := &nodeTracker{settings: settings, onChange: func() {}, now: func() time.Time { return now }}
	n.current, n.deletedNodes = &state.Nodes{ByName: map[string]snapshot.Node{}}, map[string]bool{}
	for _, c := range []struct {
		reason string
		node   *corev1.Node
		want   time.Duration // after noon; -1: no time
	}{
		{"a node like others", readyNode("n", split.Spot), -1},
		{"cordoned", readyNode("n", split.Spot, withCordon), -1},
		{"noticed", readyNode("n", split.Spot, withCordon, withNotice), 2 * time.Minute},
		{"still noticed", readyNode("n", split.Spot, withNotice, withTaint), 2 * time.Minute},
		{"being deleted as well", readyNode("n", split.Spot, withNotice, beingDeleted), 2 * time.Minute},
		{"the notice was taken back", readyNode("n", split.Spot), -1},
		{"noticed again", readyNode("n", split.Spot, withNotice), 6 * time.Minute},
	} {
		n.update(settings.Node(c.node))
		got := n.latest().ByName["n"].InterruptedAt
		if c.want < 0 && !got.IsZero() || c.want >= 0 && !got.Time.Equal(noon.Add(c.want)) {
			t.Errorf("%s: %s", c.reason, got)
		}
		now = now.Add(time.Minute)
	}
}

func TestLeaderStartsWithNodeConditions(t *testing.T) {
	s := newHarness(t, 1)
	view, err := s.nodes.load(t.Context())
	if want := s.clock.Add(-time.Hour); err != nil || len(view.ByName) != 4 || !view.SpotAvailableAt.Equal(want) ||
		!view.OnDemandAvailableAt.Equal(want) {
		t.Errorf("%+v: %v", view, err)
	}
}

func TestNodeChangesAreBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		n := &nodeTracker{settings: settings, onChange: func() { calls++ }, now: time.Now,
			current: &state.Nodes{ByName: map[string]snapshot.Node{}}, deletedNodes: map[string]bool{}}
		for _, name := range []string{"a", "b", "c"} {
			n.update(settings.Node(readyNode(name, split.Spot)))
		}
		time.Sleep(10 * notifyDelay)
		synctest.Wait()
		if calls != 1 {
			t.Errorf("woken %d times", calls)
		}
	})
}

func TestPodOnAnUncachedNodeStays(t *testing.T) {
	s := newHarness(t, 10)
	s.runSteps(5)
	s.writes = nil
	node := readyNode("spot-9", split.Spot)
	s.create(node) // not in the cache
	for _, pod := range s.pods() {
		if pod.Spec.NodeName == "spot-0" {
			pod.Spec.NodeName = "spot-9"
			s.update(&pod)
		}
	}
	s.mustReconcile()
	if s.countMoves() > 0 || s.nodes.latest().ByName["spot-9"].Name != "" {
		t.Errorf("written %v", s.writes)
	}
	if _, err := s.nodes.Reconcile(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	s.removeNode("spot-9")
	s.mustReconcile()
	if s.countMoves() == 0 {
		t.Error("its node is gone, and the pod stays")
	}
}
