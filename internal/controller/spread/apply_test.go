package spread

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	"github.com/swarm-io/swarm-operator/internal/workload"
	"github.com/swarm-io/swarm-operator/kit"
)

// newMisplacedHarness returns a harness with all ten pods on on-demand nodes, six of which belong on spot nodes.
func newMisplacedHarness(t *testing.T) *harness {
	t.Helper()
	s := newHarness(t, 10)
	s.covered = false
	s.runSteps(3)
	s.covered = true
	s.clock = s.clock.Add(time.Minute)
	s.writes, s.recorded = nil, nil
	return s
}

func (s *harness) setNamespaceWindows(windows string) {
	s.t.Helper()
	namespace := &corev1.Namespace{}
	if err := s.cluster.Get(s.t.Context(), client.ObjectKey{Name: "demo"}, namespace); err != nil {
		s.t.Fatal(err)
	}
	namespace.Annotations = map[string]string{"swarm.io/disruption-windows": windows}
	s.update(namespace)
}

// setRemoveErr is the API server's response to every request to remove a pod.
func (s *harness) setRemoveErr(err error) {
	for _, pod := range s.pods() {
		s.removeErrs[pod.Name] = err
	}
}

func TestRefusedEvictionIsRetriedLater(t *testing.T) {
	s := newMisplacedHarness(t)
	s.setRemoveErr(errBudgetExhausted)
	if got := s.mustReconcile(); got != kit.RequeueAfter(budgetRetryDelay, "BlockedByPDB") {
		t.Errorf("%+v", got)
	}
	s.expectStatus("BlockedByPDB", "on-demand:10,spot:0")
	s.setRemoveErr(nil)
	s.mustReconcile() // another event has occurred
	if s.countMoves() > 0 {
		t.Errorf("asked again at once: %v", s.writes)
	}
	s.create(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "other"}})
	s.mustReconcile()
	if s.countMoves() != 1 {
		t.Errorf("the budgets have changed, and %v was written", s.writes)
	}
	if len(s.reasons()) > 0 {
		t.Errorf("told %v", s.recorded)
	}
}

func TestRefusedEvictionIsRetriedWithoutABudgetChange(t *testing.T) {
	s := newMisplacedHarness(t)
	s.setRemoveErr(errBudgetExhausted)
	s.mustReconcile()
	s.expectMoveAfter(budgetRetryDelay)
}

func TestSeveralBudgetsAreReportedAndRetriedSlowly(t *testing.T) {
	s := newMisplacedHarness(t)
	s.setRemoveErr(errSeveralBudgets)
	if got := s.mustReconcile(); got != kit.RequeueAfter(severalBudgetsRetryDelay, "BlockedByPDB") {
		t.Errorf("%+v", got)
	}
	for range 50 {
		s.clock = s.clock.Add(time.Second)
		s.mustReconcile()
	}
	s.expectStatus("BlockedByPDB", "on-demand:10,spot:0")
	if len(s.recorded) != 1 || s.recorded[0].reason != "ConfigurationError" || s.recorded[0].eventType != "Warning" ||
		!strings.Contains(s.recorded[0].note, "leave one") {
		t.Errorf("told %+v", s.recorded)
	}
	s.startLeader()
	s.mustReconcile()
	if len(s.recorded) != 1 {
		t.Errorf("told again after a restart: %+v", s.recorded)
	}
	s.expectMoveAfter(severalBudgetsRetryDelay)
}

func TestSeveralBudgetsAreDetectedBeforeEvicting(t *testing.T) {
	s := newMisplacedHarness(t)
	for _, name := range []string{"one", "two"} {
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}
		budget.Spec.Selector, budget.Status.DisruptionsAllowed = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, 5
		s.create(budget)
	}
	s.mustReconcile()
	s.expectStatus("BlockedByPDB", "on-demand:10,spot:0")
	if got := s.reasons(); !slices.Equal(got, []string{"ConfigurationError"}) || s.countMoves() > 0 {
		t.Errorf("told %v, written %v", s.recorded, s.writes)
	}
}

func TestMissingPodsAreIgnored(t *testing.T) {
	for name, answer := range map[string]error{"gone": errNotFound, "another": errConflict} {
		t.Run(name, func(t *testing.T) {
			s := newMisplacedHarness(t)
			s.setRemoveErr(answer)
			s.mustReconcile()
			if len(s.recorded) > 0 || !s.states.getOrCreate(s.toWorkload(s.getDeployment())).lastMove.IsZero() {
				t.Errorf("told %v", s.recorded)
			}
		})
	}
}

func TestApplyStopsAtAChangedPod(t *testing.T) {
	for name, answer := range map[string]error{"gone": errNotFound, "another": errConflict} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 10)
			s.runSteps(3)
			s.writes = nil
			s.removeNode("spot-0")
			s.removeErrs["web-03"] = answer // the first of six existing ones
			if got := s.mustReconcile(); s.countMoves() > 0 || got != kit.RequeueAfter(conflictRetryDelay, "Rebalancing") {
				t.Errorf("written %v, and then %+v", s.writes, got)
			}
			delete(s.removeErrs, "web-03")
			if s.mustReconcile(); s.countMoves() != 6 {
				t.Errorf("written %v", s.writes)
			}
		})
	}
}

func TestAPodThatHasJustGotANodeIsNotDeleted(t *testing.T) {
	s := newHarness(t, 10)
	s.maxPods[split.Spot] = 0
	s.runSteps(3)
	s.clock, s.writes = s.clock.Add(settings.PendingDeadline), nil
	late, err := s.listPods(t.Context(), s.toWorkload(s.getDeployment()).Key)
	if err != nil {
		t.Fatal(err)
	}
	s.controller.listPods = func(context.Context, workload.Key) ([]*corev1.Pod, error) { return slices.Clone(late), nil }
	s.maxPods[split.Spot] = 100
	s.schedulePods()
	if got := s.mustReconcile(); s.countMoves() > 0 || got != kit.RequeueAfter(conflictRetryDelay, "SpotUnavailable") {
		t.Errorf("written %v, and then %+v", s.writes, got)
	}
	s.controller.listPods = s.listPods
	s.mustReconcile()
	s.expectStatus("Balanced", "on-demand:4,spot:6")
}

func TestOtherAnswersAreErrors(t *testing.T) {
	s := newMisplacedHarness(t)
	denied := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("a policy of ours"))
	for answer, says := range map[error]string{
		errDown: "the API server did not answer", context.DeadlineExceeded: "the API server did not answer",
		errBusy: "the API server says TooManyRequests", errInternal: "the API server says InternalError", denied: "a policy of ours",
	} {
		s.setRemoveErr(answer)
		if _, err := s.reconcile(); !errors.Is(err, answer) {
			t.Errorf("%v instead of %v", err, answer)
		}
		s.expectStatus("Rebalancing", "on-demand:10,spot:0")
		if got := s.annotation(v1alpha1.SpreadReason); !strings.HasPrefix(got, "trying again: ") || !strings.HasSuffix(got, says) {
			t.Errorf("the reason is %q", got)
		}
	}
	s.setRemoveErr(kit.ErrNotLeading)
	s.patchErr = kit.ErrNotLeading
	if _, err := s.reconcile(); !errors.Is(err, kit.ErrNotLeading) {
		t.Errorf("%v", err)
	}
}

func TestMoveEventsFollowTheStatusPatch(t *testing.T) {
	s := newMisplacedHarness(t)
	s.editDeployment(func(d *appsv1.Deployment) { delete(d.Annotations, "swarm.io/spread-status") })
	s.patchErr = errDown
	if _, err := s.reconcile(); !errors.Is(err, errDown) || len(s.recorded) > 0 || s.countMoves() != 1 {
		t.Fatalf("%v, told %v, written %v", err, s.recorded, s.writes)
	}
	s.patchErr = nil
	s.mustReconcile()
	if len(s.recorded) != 1 || s.recorded[0].reason != "PodRescheduled" || s.countMoves() != 1 {
		t.Errorf("told %v, written %v", s.recorded, s.writes)
	}
}

func TestOverrideDeletes(t *testing.T) {
	s := newMisplacedHarness(t)
	s.editDeployment(func(d *appsv1.Deployment) { d.Annotations["swarm.io/pdb-override"] = "true" })
	s.mustReconcile()
	if !slices.ContainsFunc(s.writes, func(write string) bool { return strings.HasPrefix(write, "delete") }) {
		t.Errorf("written: %v", s.writes)
	}
}

func TestAWorkloadThatAdmissionNeverSees(t *testing.T) {
	s := newMisplacedHarness(t)
	s.covered, s.unsupported = false, "admission is disabled (webhook.enabled)"
	s.runSteps(20)
	s.expectStatus("Invalid: admission is disabled (webhook.enabled)", "on-demand:10,spot:0")
	if got := s.annotation(v1alpha1.SpreadDesired); got != "on-demand:4,spot:6" {
		t.Errorf("wanted is %q", got)
	}
	if got := s.reasons(); !slices.Equal(got, []string{"ConfigurationError"}) || s.countMoves() > 0 {
		t.Errorf("told %v, written %v", s.recorded, s.writes)
	}
}

func TestWindowsOfTheNamespace(t *testing.T) {
	s := newMisplacedHarness(t)
	s.setNamespaceWindows("0 3 * * * for 1h")
	if got := s.mustReconcile(); got != kit.RequeueAfter(s.clock.Truncate(24*time.Hour).Add(27*time.Hour).Sub(s.clock), "Rebalancing") ||
		s.countMoves() > 0 {
		t.Errorf("%+v, written %v", got, s.writes)
	}
	s.setNamespaceWindows("at night")
	s.mustReconcile()
	if got := s.annotation(v1alpha1.SpreadStatus); !strings.HasPrefix(got, "Invalid: disruption-windows: ") || s.countMoves() > 0 {
		t.Errorf("%s, written %v", got, s.writes)
	}
	s.setNamespaceWindows("")
	s.mustReconcile()
	if s.countMoves() != 1 {
		t.Errorf("written %v", s.writes)
	}
}
