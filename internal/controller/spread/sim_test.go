package spread

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	engine "github.com/swarm-io/swarm-operator/internal/spread"
)

func TestAWorkloadIsBalancedAndQuiet(t *testing.T) {
	s := newStage(t, 10)
	s.run(5)
	s.expect("Balanced", "on-demand:4,spot:6")
	if got := s.annotated(v1alpha1.SpreadDesired) + " " + s.annotated(v1alpha1.SpreadSettings); got != "on-demand:4,spot:6 min-on-demand:2,spot-percentage:60" {
		t.Errorf("it says %q", got)
	}
	if got := s.reasons(); !slices.Equal(got, []string{"ReconciliationSuccess"}) {
		t.Errorf("told %v", got)
	}
	s.writes, s.told = nil, nil
	s.run(20)
	s.start() // a new leader
	s.run(4)
	if len(s.writes)+len(s.told) > 0 {
		t.Errorf("a stable workload has %v written, and %v told", s.writes, s.told)
	}
}

func TestPodsThatAdmissionDidNotSeeAreMovedInSteps(t *testing.T) {
	s := newStage(t, 10)
	s.covered = false
	s.run(5)
	s.expect("Rebalancing", "on-demand:10,spot:0")
	for _, write := range s.writes {
		if !strings.HasPrefix(write, "annotate") {
			t.Errorf("%s, though admission would not put the replacement elsewhere", write)
		}
	}
	s.covered = true
	for range 40 {
		s.run(1)
		if away := 10 - len(s.pods()) + len(s.evicted); away > 2 {
			t.Fatalf("%d pods are away at once: %v", away, s.writes)
		}
	}
	s.expect("Balanced", "on-demand:4,spot:6")
	if moved := s.moves(); moved != 6 {
		t.Errorf("%d moves: %v", moved, s.writes)
	}
	if first := s.told[0]; first.kind != "Normal" || first.reason != "PodRescheduled" || first.about == "" || !strings.Contains(first.note, "from on-demand to spot nodes") {
		t.Errorf("told %+v", first)
	}
}

func (s *stage) moves() int {
	return len(slices.DeleteFunc(slices.Clone(s.writes), func(write string) bool { return strings.HasPrefix(write, "annotate") }))
}

// A webhook that the API server cannot reach, although all looks well, must not cost one Ready pod after the other.
func TestReplacementsWithoutAPlaceStopMoves(t *testing.T) {
	s := newStage(t, 10)
	s.deaf = true
	s.run(int(3 * time.Minute / pass))
	if moved := s.moves(); moved != 1 {
		t.Errorf("%d moves: %v", moved, s.writes)
	}
	s.expect("Rebalancing", "on-demand:10,spot:0")
	if said := s.annotated(v1alpha1.SpreadReason); !strings.Contains(said, "can the API server reach the webhook?") {
		t.Errorf("it says %q", said)
	}
	s.run(int(20 * time.Minute / pass))
	if moved := s.moves(); moved != 3 {
		t.Errorf("%d moves in 23 minutes: %v", moved, s.writes)
	}
	s.deaf = false
	s.run(int(12 * time.Minute / pass))
	s.expect("Balanced", "on-demand:4,spot:6")
}

// Kueue gates pods for any length of time.
func TestPodsBehindAGateAreLeftAlone(t *testing.T) {
	s := newStage(t, 3)
	s.raise()
	for _, pod := range s.pods() {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "queue"}}
		s.update(&pod)
	}
	s.run(int(time.Hour / pass))
	for _, pod := range s.pods() {
		pod.Spec.SchedulingGates = nil
		s.update(&pod)
	}
	s.room[engine.Spot] = 0 // for a while
	s.run(5)
	s.room[engine.Spot] = 10
	s.run(5)
	s.expect("Balanced", "on-demand:2,spot:1")
	if moved := s.moves(); moved > 0 {
		t.Errorf("%d moves: %v", moved, s.writes)
	}
}

// A moved pod that is gated is unavailable until the gate is removed.
func TestGatesDoNotDrainAWorkload(t *testing.T) {
	s := newStage(t, 10)
	s.covered = false
	s.run(5)
	s.covered, s.gates = true, []corev1.PodSchedulingGate{{Name: "queue"}}
	s.run(int(time.Hour / pass))
	if moved := s.moves(); moved != 1 {
		t.Errorf("%d moves: %v", moved, s.writes)
	}
}

func TestARestartInTheMiddleComesToTheSameEnd(t *testing.T) {
	for _, at := range []int{1, 4, 9} {
		t.Run(fmt.Sprint("after ", at), func(t *testing.T) {
			s := newStage(t, 10)
			s.covered = false
			s.run(3)
			s.covered = true
			s.run(at)
			s.start()
			s.run(40)
			s.expect("Balanced", "on-demand:4,spot:6")
			if moved := s.moves(); moved != 6 {
				t.Errorf("%d moves: %v", moved, s.writes)
			}
			if got := s.reasons(); !slices.Equal(got, []string{"ReconciliationSuccess"}) {
				t.Errorf("told %v", got)
			}
		})
	}
}

func TestSpotGoesAndReturns(t *testing.T) {
	s := newStage(t, 10)
	s.run(5)
	s.leave("spot-0")
	s.leave("spot-1")
	s.run(10)
	s.expect("SpotUnavailable", "on-demand:10,spot:0")
	s.join("spot-2", engine.Spot)
	s.run(40)
	s.expect("Balanced", "on-demand:4,spot:6")
	if got := s.reasons(); !slices.Equal(got, []string{"ReconciliationSuccess", "SpotUnavailable", "ReconciliationSuccess"}) {
		t.Errorf("told %v", got)
	}
}

func TestPodsThatFindNoRoomFallBack(t *testing.T) {
	s := newStage(t, 10)
	s.room[engine.Spot] = 0
	s.run(30)
	s.expect("SpotUnavailable", "on-demand:10,spot:0")
	for _, write := range s.writes {
		if strings.HasPrefix(write, "evict") {
			t.Errorf("%s, and it never ran", write)
		}
	}
}

func TestAnEditIsFollowed(t *testing.T) {
	s := newStage(t, 10)
	s.run(5)
	s.change(func(d *appsv1.Deployment) { d.Annotations["swarm.io/spot-percentage"] = "101" })
	s.run(1)
	s.expect(`Invalid: spot-percentage is "101": write a whole number from 0 to 100, such as "60" or "60%"`, "on-demand:4,spot:6")
	s.change(func(d *appsv1.Deployment) { d.Annotations["swarm.io/spot-percentage"] = "20" })
	s.run(30)
	s.expect("Balanced", "on-demand:8,spot:2")
	s.change(func(d *appsv1.Deployment) { delete(d.Annotations, "swarm.io/spread") })
	s.must()
	for _, annotation := range written {
		if got, found := s.deployment().Annotations["swarm.io/"+string(annotation)]; found {
			t.Errorf("%s is still there: %q", annotation, got)
		}
	}
	if got := s.deployment().Annotations["swarm.io/spot-percentage"]; got != "20" {
		t.Errorf("what people wrote has become %q", got)
	}
	if s.memories.knows(keyOf("web")) {
		t.Error("it is still remembered")
	}
	if got := s.reasons(); !slices.Equal(got, []string{"ReconciliationSuccess", "ConfigurationError", "ReconciliationSuccess"}) {
		t.Errorf("told %v", got)
	}
}

func TestReadOnlyOnlyReports(t *testing.T) {
	s := newStage(t, 10)
	s.covered = false
	s.run(3)
	s.covered, s.settings.ReadOnly = true, true
	s.run(12)
	s.expect("Rebalancing", "on-demand:10,spot:0")
	if s.moves() > 0 {
		t.Errorf("written: %v", s.writes)
	}
}

func TestOtherNodesAreTheSameForAllWorkloadsOfAClassThatHasNone(t *testing.T) {
	s := newStage(t, 10)
	s.settings.Provisioner = "present" // a class without nodes may get some
	s.run(6)
	s.leave("spot-0")
	s.leave("spot-1")
	s.run(16)
	s.expect("SpotUnavailable", "on-demand:10,spot:0")
	// A new workload does not wait for its own deadline.
	fresh := s.memories.past(&memory{}, *s.nodes.known(), s.clock)
	if since := s.clock.Sub(fresh.Spot.NoCapacitySince); since > time.Minute {
		t.Errorf("a new workload knows of a failure %s ago", since)
	}
	if late := s.memories.past(&memory{}, *s.nodes.known(), s.clock.Add(time.Hour)); !late.Spot.NoCapacitySince.IsZero() {
		t.Error("what was known an hour ago is still believed")
	}
	s.join("spot-2", engine.Spot)
	if again := s.memories.past(&memory{}, *s.nodes.known(), s.clock); !again.Spot.NoCapacitySince.IsZero() || again.Spot.NodeAvailableAt != s.clock {
		t.Errorf("spot is back, and a new workload believes %+v", again.Spot)
	}
}
