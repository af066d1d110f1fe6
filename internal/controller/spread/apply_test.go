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
	engine "github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
	"github.com/swarm-io/swarm-operator/kit"
)

// misplaced returns a stage with all ten pods on on-demand nodes, six of which belong on spot nodes.
func misplaced(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, 10)
	s.covered = false
	s.run(3)
	s.covered = true
	s.clock = s.clock.Add(time.Minute)
	s.writes, s.told = nil, nil
	return s
}

func (s *stage) namespace(windows string) {
	s.t.Helper()
	namespace := &corev1.Namespace{}
	if err := s.cluster.Get(s.t.Context(), client.ObjectKey{Name: "demo"}, namespace); err != nil {
		s.t.Fatal(err)
	}
	namespace.Annotations = map[string]string{"swarm.io/disruption-windows": windows}
	s.update(namespace)
}

// answer is the API server's response to every request to remove a pod.
func (s *stage) answer(err error) {
	for _, pod := range s.pods() {
		s.answers[pod.Name] = err
	}
}

func TestABudgetThatRefusesIsAskedAgainLater(t *testing.T) {
	s := misplaced(t)
	s.answer(tooMany)
	if got := s.must(); got != kit.RequeueAfter(budgetAgain, "BlockedByPDB") {
		t.Errorf("%+v", got)
	}
	s.expect("BlockedByPDB", "on-demand:10,spot:0")
	s.answer(nil)
	s.must() // another event has occurred
	if s.moves() > 0 {
		t.Errorf("asked again at once: %v", s.writes)
	}
	s.create(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "other"}})
	s.must()
	if s.moves() != 1 {
		t.Errorf("the budgets have changed, and %v was written", s.writes)
	}
	if len(s.reasons()) > 0 {
		t.Errorf("told %v", s.told)
	}
}

func TestABudgetThatStaysSilentIsAskedAgainAfterAWhile(t *testing.T) {
	s := misplaced(t)
	s.answer(tooMany)
	s.must()
	s.answer(nil)
	s.clock = s.clock.Add(budgetAgain)
	s.must()
	if s.moves() != 1 {
		t.Errorf("written: %v", s.writes)
	}
}

func TestSeveralBudgetsAreReportedAndRetriedSlowly(t *testing.T) {
	s := misplaced(t)
	s.answer(several)
	if got := s.must(); got != kit.RequeueAfter(crowdedAgain, "BlockedByPDB") {
		t.Errorf("%+v", got)
	}
	for range 50 {
		s.clock = s.clock.Add(time.Second)
		s.must()
	}
	s.expect("BlockedByPDB", "on-demand:10,spot:0")
	if len(s.told) != 1 || s.told[0].reason != "ConfigurationError" || s.told[0].kind != "Warning" || !strings.Contains(s.told[0].note, "leave one") {
		t.Errorf("told %+v", s.told)
	}
	s.start()
	s.must()
	if len(s.told) != 1 {
		t.Errorf("told again after a restart: %+v", s.told)
	}
	s.answer(nil)
	s.clock = s.clock.Add(crowdedAgain)
	s.must()
	if s.moves() != 1 {
		t.Errorf("written: %v", s.writes)
	}
}

func TestSeveralBudgetsAreSeenBeforeAnybodyIsAsked(t *testing.T) {
	s := misplaced(t)
	for _, name := range []string{"one", "two"} {
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}
		budget.Spec.Selector, budget.Status.DisruptionsAllowed = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, 5
		s.create(budget)
	}
	s.must()
	s.expect("BlockedByPDB", "on-demand:10,spot:0")
	if got := s.reasons(); !slices.Equal(got, []string{"ConfigurationError"}) || s.moves() > 0 {
		t.Errorf("told %v, written %v", s.told, s.writes)
	}
}

func TestPodsThatAreGoneAreSilence(t *testing.T) {
	for name, answer := range map[string]error{"gone": vanished, "another": other} {
		t.Run(name, func(t *testing.T) {
			s := misplaced(t)
			s.answer(answer)
			s.must()
			if len(s.told) > 0 || !s.memories.remember(s.of(s.deployment())).lastMove.IsZero() {
				t.Errorf("told %v", s.told)
			}
		})
	}
}

func TestNobodyElseIsTakenWhenAPodIsNoLongerWhatWasSeen(t *testing.T) {
	for name, answer := range map[string]error{"gone": vanished, "another": other} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 10)
			s.run(3)
			s.writes = nil
			s.leave("spot-0")
			s.answers["web-03"] = answer // the first of six existing ones
			if got := s.must(); s.moves() > 0 || got != kit.RequeueAfter(changedAgain, "Rebalancing") {
				t.Errorf("written %v, and then %+v", s.writes, got)
			}
			delete(s.answers, "web-03")
			if s.must(); s.moves() != 6 {
				t.Errorf("written %v", s.writes)
			}
		})
	}
}

func TestAPodThatHasJustGotANodeIsNotDeleted(t *testing.T) {
	s := newStage(t, 10)
	s.room[engine.Spot] = 0
	s.run(3)
	s.clock, s.writes = s.clock.Add(settings.PendingDeadline), nil
	late, err := s.replicas(t.Context(), s.of(s.deployment()).Key)
	if err != nil {
		t.Fatal(err)
	}
	s.keeper.replicas = func(context.Context, survey.Key) ([]*corev1.Pod, error) { return slices.Clone(late), nil }
	s.room[engine.Spot] = 100
	s.bind()
	if got := s.must(); s.moves() > 0 || got != kit.RequeueAfter(changedAgain, "SpotUnavailable") {
		t.Errorf("written %v, and then %+v", s.writes, got)
	}
	s.keeper.replicas = s.replicas
	s.must()
	s.expect("Balanced", "on-demand:4,spot:6")
}

func TestOtherAnswersAreErrors(t *testing.T) {
	s := misplaced(t)
	denied := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("a policy of ours"))
	for answer, says := range map[error]string{
		errDown: "the API server did not answer", context.DeadlineExceeded: "the API server did not answer",
		busy: "the API server says TooManyRequests", broken: "the API server says InternalError", denied: "a policy of ours",
	} {
		s.answer(answer)
		if _, err := s.reconcile(); !errors.Is(err, answer) {
			t.Errorf("%v instead of %v", err, answer)
		}
		s.expect("Rebalancing", "on-demand:10,spot:0")
		if got := s.annotated(v1alpha1.SpreadReason); !strings.HasPrefix(got, "trying again: ") || !strings.HasSuffix(got, says) {
			t.Errorf("the reason is %q", got)
		}
	}
	s.answer(kit.ErrNotLeading)
	s.refuse = kit.ErrNotLeading
	if _, err := s.reconcile(); !errors.Is(err, kit.ErrNotLeading) {
		t.Errorf("%v", err)
	}
}

func TestWhatWasMovedIsToldOnceTheStatusIsWritten(t *testing.T) {
	s := misplaced(t)
	s.change(func(d *appsv1.Deployment) { delete(d.Annotations, "swarm.io/spread-status") })
	s.refuse = errDown
	if _, err := s.reconcile(); !errors.Is(err, errDown) || len(s.told) > 0 || s.moves() != 1 {
		t.Fatalf("%v, told %v, written %v", err, s.told, s.writes)
	}
	s.refuse = nil
	s.must()
	if len(s.told) != 1 || s.told[0].reason != "PodRescheduled" || s.moves() != 1 {
		t.Errorf("told %v, written %v", s.told, s.writes)
	}
}

func TestOverrideDeletes(t *testing.T) {
	s := misplaced(t)
	s.change(func(d *appsv1.Deployment) { d.Annotations["swarm.io/pdb-override"] = "true" })
	s.must()
	if !slices.ContainsFunc(s.writes, func(write string) bool { return strings.HasPrefix(write, "delete") }) {
		t.Errorf("written: %v", s.writes)
	}
}

func TestAWorkloadThatAdmissionNeverSees(t *testing.T) {
	s := misplaced(t)
	s.covered, s.never = false, "admission is disabled (webhook.enabled)"
	s.run(20)
	s.expect("Invalid: admission is disabled (webhook.enabled)", "on-demand:10,spot:0")
	if got := s.annotated(v1alpha1.SpreadDesired); got != "on-demand:4,spot:6" {
		t.Errorf("wanted is %q", got)
	}
	if got := s.reasons(); !slices.Equal(got, []string{"ConfigurationError"}) || s.moves() > 0 {
		t.Errorf("told %v, written %v", s.told, s.writes)
	}
}

func TestWindowsOfTheNamespace(t *testing.T) {
	s := misplaced(t)
	s.namespace("0 3 * * * for 1h")
	if got := s.must(); got != kit.RequeueAfter(s.clock.Truncate(24*time.Hour).Add(27*time.Hour).Sub(s.clock), "Rebalancing") || s.moves() > 0 {
		t.Errorf("%+v, written %v", got, s.writes)
	}
	s.namespace("at night")
	s.must()
	if got := s.annotated(v1alpha1.SpreadStatus); !strings.HasPrefix(got, "Invalid: disruption-windows: ") || s.moves() > 0 {
		t.Errorf("%s, written %v", got, s.writes)
	}
	s.namespace("")
	s.must()
	if s.moves() != 1 {
		t.Errorf("written %v", s.writes)
	}
}
