package spread

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	engine "github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

func readyNode(name string, class engine.Class, edits ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"class": string(class)}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)}}
	for _, edit := range edits {
		edit(node)
	}
	return node
}

func cordoned(node *corev1.Node) { node.Spec.Unschedulable = true }
func notified(node *corev1.Node) {
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "going", Effect: corev1.TaintEffectNoSchedule})
}
func tainted(node *corev1.Node) {
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "starting", Effect: corev1.TaintEffectNoSchedule})
}
func zoned(node *corev1.Node) { node.Labels["zone"] = "a" }
func beating(node *corev1.Node) {
	node.ResourceVersion, node.Status.Conditions[0].LastHeartbeatTime = "2", metav1.NewTime(noon.Add(time.Minute))
}
func departing(node *corev1.Node) { node.DeletionTimestamp = &metav1.Time{Time: noon} }

func TestNodesReturnWhenTheyBeginToTakePods(t *testing.T) {
	spot := func(edits ...func(*corev1.Node)) *corev1.Node { return readyNode("n", engine.Spot, edits...) }
	for name, test := range map[string]struct {
		before, after *corev1.Node
		heard         bool // is queued
		woken         bool // matters to workloads
		returned      bool
	}{
		"heartbeat":           {spot(), spot(beating), false, false, false},
		"label":               {spot(), spot(zoned), true, false, false},
		"cordoned":            {spot(), spot(cordoned), true, true, false},
		"uncordoned":          {spot(cordoned), spot(), true, true, true},
		"notice":              {spot(), spot(notified), true, true, false},
		"notice taken back":   {spot(notified), spot(), true, true, true},
		"taint":               {spot(), spot(tainted), true, true, false},
		"taint taken off":     {spot(tainted), spot(), true, true, true},
		"other class":         {readyNode("n", engine.OnDemand), spot(), true, true, true},
		"new":                 {nil, spot(), true, true, true},
		"new and closed":      {nil, spot(cordoned), true, true, false},
		"being deleted":       {spot(), spot(departing), true, true, false},
		"still being deleted": {spot(departing), spot(departing, beating), false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			later := noon.Add(time.Hour)
			n := &nodes{settings: settings, changed: func() {}, now: func() time.Time { return later }, view: &landscape{nodes: map[string]survey.Node{}}, lost: map[string]bool{}}
			if test.before != nil {
				n.view = &landscape{nodes: map[string]survey.Node{"n": settings.Node(test.before)}}
				if heard := n.news().Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); heard != test.heard {
					t.Errorf("heard %t", heard)
				}
			}
			if _, err := n.Reconcile(t.Context(), test.after); err != nil {
				t.Fatal(err)
			}
			if n.pending != test.woken || n.known().spot.Equal(later) != test.returned {
				t.Errorf("woken %t, returned %s", n.pending, n.known().spot)
			}
		})
	}
}

// The deadline of a node counts from when its interruption notice was first seen, not from an earlier cordon.
func TestNoticeIsDatedOnce(t *testing.T) {
	now := noon
	n := &nodes{settings: settings, changed: func() {}, now: func() time.Time { return now }}
	n.view, n.lost = &landscape{nodes: map[string]survey.Node{}}, map[string]bool{}
	for _, c := range []struct {
		reason string
		node   *corev1.Node
		want   time.Duration // after noon; -1: no time
	}{
		{"a node like others", readyNode("n", engine.Spot), -1},
		{"cordoned", readyNode("n", engine.Spot, cordoned), -1},
		{"noticed", readyNode("n", engine.Spot, cordoned, notified), 2 * time.Minute},
		{"still noticed", readyNode("n", engine.Spot, notified, tainted), 2 * time.Minute},
		{"being deleted as well", readyNode("n", engine.Spot, notified, departing), 2 * time.Minute},
		{"the notice was taken back", readyNode("n", engine.Spot), -1},
		{"noticed again", readyNode("n", engine.Spot, notified), 6 * time.Minute},
	} {
		n.note(settings.Node(c.node))
		got := n.known().nodes["n"].InterruptedAt
		if c.want < 0 && !got.IsZero() || c.want >= 0 && !got.Time.Equal(noon.Add(c.want)) {
			t.Errorf("%s: %s", c.reason, got)
		}
		now = now.Add(time.Minute)
	}
}

func TestALeaderBeginsWithWhatTheNodesSay(t *testing.T) {
	s := newStage(t, 1)
	view, err := s.nodes.landscape(t.Context())
	if want := s.clock.Add(-time.Hour); err != nil || len(view.nodes) != 4 || !view.spot.Equal(want) || !view.onDemand.Equal(want) {
		t.Errorf("%+v: %v", view, err)
	}
}

func TestManyChangesWakeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		woken := 0
		n := &nodes{settings: settings, changed: func() { woken++ }, now: time.Now, view: &landscape{nodes: map[string]survey.Node{}}, lost: map[string]bool{}}
		for _, name := range []string{"a", "b", "c"} {
			n.note(settings.Node(readyNode(name, engine.Spot)))
		}
		time.Sleep(10 * gathering)
		synctest.Wait()
		if woken != 1 {
			t.Errorf("woken %d times", woken)
		}
	})
}

func TestAPodThatIsHeardOfBeforeItsNodeStays(t *testing.T) {
	s := newStage(t, 10)
	s.run(5)
	s.writes = nil
	node := readyNode("spot-9", engine.Spot)
	s.create(node) // not in the cache
	for _, pod := range s.pods() {
		if pod.Spec.NodeName == "spot-0" {
			pod.Spec.NodeName = "spot-9"
			s.update(&pod)
		}
	}
	s.must()
	if s.moves() > 0 || s.nodes.known().nodes["spot-9"].Name != "" {
		t.Errorf("written %v", s.writes)
	}
	if _, err := s.nodes.Reconcile(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	s.leave("spot-9")
	s.must()
	if s.moves() == 0 {
		t.Error("its node is gone, and the pod stays")
	}
}
