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
	"github.com/swarm-io/swarm-operator/internal/spread/split"
)

func TestAWorkloadIsBalancedAndQuiet(t *testing.T) {
	s := newHarness(t, 10)
	s.runSteps(5)
	s.expectStatus("Balanced", "on-demand:4,spot:6")
	if got := s.annotation(v1alpha1.SpreadDesired) + " " +
		s.annotation(v1alpha1.SpreadSettings); got != "on-demand:4,spot:6 min-on-demand:2,spot-percentage:60" {
		t.Errorf("it says %q", got)
	}
	if got := s.reasons(); !slices.Equal(got, []string{"ReconciliationSuccess"}) {
		t.Errorf("told %v", got)
	}
	s.writes, s.recorded = nil, nil
	s.runSteps(20)
	s.startLeader() // a new leader
	s.runSteps(4)
	if len(s.writes)+len(s.recorded) > 0 {
		t.Errorf("a stable workload has %v written, and %v told", s.writes, s.recorded)
	}
}

func TestPodsThatAdmissionDidNotSeeAreMovedInSteps(t *testing.T) {
	s := newHarness(t, 10)
	s.covered = false
	s.runSteps(5)
	s.expectStatus("Rebalancing", "on-demand:10,spot:0")
	for _, write := range s.writes {
		if !strings.HasPrefix(write, "annotate") {
			t.Errorf("%s, though admission would not put the replacement elsewhere", write)
		}
	}
	s.covered = true
	for range 40 {
		s.runSteps(1)
		if away := 10 - len(s.pods()) + len(s.removed); away > 2 {
			t.Fatalf("%d pods are away at once: %v", away, s.writes)
		}
	}
	s.expectStatus("Balanced", "on-demand:4,spot:6")
	if moved := s.countMoves(); moved != 6 {
		t.Errorf("%d moves: %v", moved, s.writes)
	}
	if first := s.recorded[0]; first.eventType != "Normal" || first.reason != "PodRescheduled" || first.pod == "" ||
		!strings.Contains(first.note, "from on-demand to spot nodes") {
		t.Errorf("told %+v", first)
	}
}

func (s *harness) countMoves() int {
	return len(slices.DeleteFunc(slices.Clone(s.writes), func(write string) bool { return strings.HasPrefix(write, "annotate") }))
}

// A webhook that the API server cannot reach, although all looks well, must not cost one Ready pod after the other.
func TestReplacementsWithoutAPlaceStopMoves(t *testing.T) {
	s := newHarness(t, 10)
	s.webhookDown = true
	s.runSteps(int(3 * time.Minute / stepDuration))
	if moved := s.countMoves(); moved != 1 {
		t.Errorf("%d moves: %v", moved, s.writes)
	}
	s.expectStatus("Rebalancing", "on-demand:10,spot:0")
	if said := s.annotation(v1alpha1.SpreadReason); !strings.Contains(said, "can the API server reach the webhook?") {
		t.Errorf("it says %q", said)
	}
	s.runSteps(int(20 * time.Minute / stepDuration))
	if moved := s.countMoves(); moved != 3 {
		t.Errorf("%d moves in 23 minutes: %v", moved, s.writes)
	}
	s.webhookDown = false
	s.runSteps(int(12 * time.Minute / stepDuration))
	s.expectStatus("Balanced", "on-demand:4,spot:6")
}

// Kueue gates pods for any length of time.
func TestPodsBehindAGateAreLeftAlone(t *testing.T) {
	s := newHarness(t, 3)
	s.createPods()
	for _, pod := range s.pods() {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "queue"}}
		s.update(&pod)
	}
	s.runSteps(int(time.Hour / stepDuration))
	for _, pod := range s.pods() {
		pod.Spec.SchedulingGates = nil
		s.update(&pod)
	}
	s.maxPods[split.Spot] = 0 // for a while
	s.runSteps(5)
	s.maxPods[split.Spot] = 10
	s.runSteps(5)
	s.expectStatus("Balanced", "on-demand:2,spot:1")
	if moved := s.countMoves(); moved > 0 {
		t.Errorf("%d moves: %v", moved, s.writes)
	}
}

// A moved pod that is gated is unavailable until the gate is removed.
func TestGatesDoNotDrainAWorkload(t *testing.T) {
	s := newHarness(t, 10)
	s.covered = false
	s.runSteps(5)
	s.covered, s.gates = true, []corev1.PodSchedulingGate{{Name: "queue"}}
	s.runSteps(int(time.Hour / stepDuration))
	if moved := s.countMoves(); moved != 1 {
		t.Errorf("%d moves: %v", moved, s.writes)
	}
}

func TestARestartInTheMiddleComesToTheSameEnd(t *testing.T) {
	for _, at := range []int{1, 4, 9} {
		t.Run(fmt.Sprint("after ", at), func(t *testing.T) {
			s := newHarness(t, 10)
			s.covered = false
			s.runSteps(3)
			s.covered = true
			s.runSteps(at)
			s.startLeader()
			s.runSteps(40)
			s.expectStatus("Balanced", "on-demand:4,spot:6")
			if moved := s.countMoves(); moved != 6 {
				t.Errorf("%d moves: %v", moved, s.writes)
			}
			if got := s.reasons(); !slices.Equal(got, []string{"ReconciliationSuccess"}) {
				t.Errorf("told %v", got)
			}
		})
	}
}

func TestSpotGoesAndReturns(t *testing.T) {
	s := newHarness(t, 10)
	s.runSteps(5)
	s.removeNode("spot-0")
	s.removeNode("spot-1")
	s.runSteps(10)
	s.expectStatus("SpotUnavailable", "on-demand:10,spot:0")
	s.addNode("spot-2", split.Spot)
	s.runSteps(40)
	s.expectStatus("Balanced", "on-demand:4,spot:6")
	if got := s.reasons(); !slices.Equal(got, []string{"ReconciliationSuccess", "SpotUnavailable", "ReconciliationSuccess"}) {
		t.Errorf("told %v", got)
	}
}

func TestPodsThatFindNoRoomFallBack(t *testing.T) {
	s := newHarness(t, 10)
	s.maxPods[split.Spot] = 0
	s.runSteps(30)
	s.expectStatus("SpotUnavailable", "on-demand:10,spot:0")
	for _, write := range s.writes {
		if strings.HasPrefix(write, "evict") {
			t.Errorf("%s, and it never ran", write)
		}
	}
}

func TestAnEditIsFollowed(t *testing.T) {
	s := newHarness(t, 10)
	s.runSteps(5)
	s.editDeployment(func(d *appsv1.Deployment) { d.Annotations["swarm.io/spot-percentage"] = "101" })
	s.runSteps(1)
	s.expectStatus(`Invalid: spot-percentage is "101": write a whole number from 0 to 100, such as "60" or "60%"`, "on-demand:4,spot:6")
	s.editDeployment(func(d *appsv1.Deployment) { d.Annotations["swarm.io/spot-percentage"] = "20" })
	s.runSteps(30)
	s.expectStatus("Balanced", "on-demand:8,spot:2")
	s.editDeployment(func(d *appsv1.Deployment) { delete(d.Annotations, "swarm.io/spread") })
	s.mustReconcile()
	for _, annotation := range ownAnnotations {
		if got, found := s.getDeployment().Annotations["swarm.io/"+string(annotation)]; found {
			t.Errorf("%s is still there: %q", annotation, got)
		}
	}
	if got := s.getDeployment().Annotations["swarm.io/spot-percentage"]; got != "20" {
		t.Errorf("what people wrote has become %q", got)
	}
	if s.states.has(keyOf("web")) {
		t.Error("it is still remembered")
	}
	if got := s.reasons(); !slices.Equal(got, []string{"ReconciliationSuccess", "ConfigurationError", "ReconciliationSuccess"}) {
		t.Errorf("told %v", got)
	}
}

func TestReadOnlyOnlyReports(t *testing.T) {
	s := newHarness(t, 10)
	s.covered = false
	s.runSteps(3)
	s.covered, s.settings.ReadOnly = true, true
	s.runSteps(12)
	s.expectStatus("Rebalancing", "on-demand:10,spot:0")
	if s.countMoves() > 0 {
		t.Errorf("written: %v", s.writes)
	}
}

func TestNewWorkloadsInheritMissingCapacity(t *testing.T) {
	s := newHarness(t, 10)
	s.settings.Provisioner = "present" // a class without nodes may get some
	s.runSteps(6)
	s.removeNode("spot-0")
	s.removeNode("spot-1")
	s.runSteps(16)
	s.expectStatus("SpotUnavailable", "on-demand:10,spot:0")
	// A new workload does not wait for its own deadline.
	fresh := s.states.history(&workloadState{}, *s.nodes.latest(), s.clock)
	if since := s.clock.Sub(fresh.Spot.NoCapacitySince); since > time.Minute {
		t.Errorf("a new workload knows of a failure %s ago", since)
	}
	if late := s.states.history(&workloadState{}, *s.nodes.latest(), s.clock.Add(time.Hour)); !late.Spot.NoCapacitySince.IsZero() {
		t.Error("what was known an hour ago is still believed")
	}
	s.addNode("spot-2", split.Spot)
	if again := s.states.history(&workloadState{}, *s.nodes.latest(), s.clock); !again.Spot.NoCapacitySince.IsZero() ||
		again.Spot.NodeAvailableAt != s.clock {
		t.Errorf("spot is back, and a new workload believes %+v", again.Spot)
	}
}
