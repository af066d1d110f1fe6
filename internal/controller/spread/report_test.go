package spread

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/plan"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	"github.com/swarm-io/swarm-operator/internal/workload"
	"github.com/swarm-io/swarm-operator/kit"
)

func TestAnnotationPatch(t *testing.T) {
	c := &controller{settings: settings}
	policy := &split.Policy{MinOnDemand: 2, SpotPercent: 60}
	decision := split.Decision{Status: split.Balanced, Desired: split.Distribution{OnDemand: 4, Spot: 6},
		Current: split.Distribution{OnDemand: 4, Spot: 6}}
	all := map[string]string{
		"swarm.io/desired-distribution": "on-demand:4,spot:6", "swarm.io/current-distribution": "on-demand:4,spot:6",
		"swarm.io/spread-status": "Balanced", "swarm.io/spread-settings": "min-on-demand:2,spot-percentage:60", "swarm.io/spread": "enabled",
	}
	for name, test := range map[string]struct {
		before map[string]string
		made   plan.Plan
		want   map[string]any
	}{
		"all as it was": {all, plan.Plan{Decision: decision, Policy: policy}, map[string]any{}},
		"nothing yet": {nil, plan.Plan{Decision: decision, Policy: policy}, map[string]any{
			"swarm.io/desired-distribution": "on-demand:4,spot:6", "swarm.io/current-distribution": "on-demand:4,spot:6",
			"swarm.io/spread-status": "Balanced", "swarm.io/spread-settings": "min-on-demand:2,spot-percentage:60",
		}},
		"another status, and its reason": {all, plan.Plan{Decision: split.Decision{Status: split.Rebalancing, Reason: "why",
			Desired: decision.Desired, Current: decision.Current}, Policy: policy},
			map[string]any{"swarm.io/spread-status": "Rebalancing", "swarm.io/spread-reason": "why"}},
		"the reason goes with the status": {map[string]string{
			"swarm.io/desired-distribution": "on-demand:4,spot:6", "swarm.io/current-distribution": "on-demand:4,spot:6",
			"swarm.io/spread-status": "Rebalancing", "swarm.io/spread-reason": "why",
			"swarm.io/spread-settings": "min-on-demand:2,spot-percentage:60",
		}, plan.Plan{Decision: decision, Policy: policy}, map[string]any{"swarm.io/spread-status": "Balanced", "swarm.io/spread-reason": nil}},
		"no policy in force": {all, plan.Plan{Decision: split.Decision{Status: split.Invalid, Current: decision.Current}, Problem: "what?"},
			map[string]any{"swarm.io/spread-status": "Invalid: what?", "swarm.io/desired-distribution": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.annotationPatch(test.before, c.annotations(test.before, test.made)); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestStatusEvents(t *testing.T) {
	planWith := func(word split.Status) plan.Plan {
		return plan.Plan{Decision: split.Decision{Status: word, Reason: "since"}}
	}
	invalid, severalBudgets := planWith(split.Invalid), planWith(split.BlockedByPDB)
	invalid.Problem, severalBudgets.Problem = "what?", "two"
	immovable := planWith(split.Rebalancing)
	immovable.Decision.ImmovablePods = "1 pod cannot be moved"
	for name, test := range map[string]struct {
		annotated string
		plans     []plan.Plan
		want      []string
	}{
		"first balance":            {"", []plan.Plan{planWith(split.Balanced)}, []string{"ReconciliationSuccess since"}},
		"balanced before we began": {"Balanced", []plan.Plan{planWith(split.Balanced), planWith(split.Balanced)}, nil},
		"balance after another": {"Balanced", []plan.Plan{planWith(split.Rebalancing), planWith(split.Balanced)},
			[]string{"ReconciliationSuccess since"}},
		"spot goes": {"Balanced", []plan.Plan{planWith(split.SpotUnavailable), planWith(split.SpotUnavailable)},
			[]string{"SpotUnavailable since"}},
		"spot went before we began":  {"SpotUnavailable", []plan.Plan{planWith(split.SpotUnavailable)}, nil},
		"invalid":                    {"Balanced", []plan.Plan{invalid, invalid}, []string{"ConfigurationError what? (since)"}},
		"invalid before we began":    {"Invalid: what?", []plan.Plan{invalid}, nil},
		"invalid in another way":     {"Invalid: how?", []plan.Plan{invalid}, []string{"ConfigurationError what? (since)"}},
		"blocked by budgets":         {"Balanced", []plan.Plan{planWith(split.BlockedByPDB)}, nil},
		"blocked by several of them": {"Balanced", []plan.Plan{severalBudgets, severalBudgets}, []string{"ConfigurationError two"}},
		"a pod that cannot be moved": {"Rebalancing", []plan.Plan{planWith(split.Rebalancing), immovable, immovable},
			[]string{"ConfigurationError 1 pod cannot be moved"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &harness{t: t}
			s.reconciler = &reconciler[*appsv1.Deployment]{controller: &controller{recorder: s}}
			about := target{Workload: workload.Deployment(newDeployment(1)), state: &workloadState{}}
			for _, plan := range test.plans {
				s.publishEvents(about, test.annotated, plan) // the cache is behind
			}
			var got []string
			for _, event := range s.recorded {
				got = append(got, event.reason+" "+event.note)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("told %q, want %q", got, test.want)
			}
		})
	}
}

func TestPatchIsNotRepeatedWhileTheCacheLags(t *testing.T) {
	s := newHarness(t, 10)
	s.createPods()
	s.schedulePods()
	stale := s.getDeployment()
	for range 3 {
		if _, err := s.Reconcile(t.Context(), stale.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(s.writes, []string{"annotate web"}) {
		t.Errorf("written: %v", s.writes)
	}
	s.editDeployment(func(d *appsv1.Deployment) { d.Annotations["swarm.io/spread-status"] = "whatever" })
	s.mustReconcile()
	s.expectStatus("Balanced", "on-demand:4,spot:6")
}

func TestAnUnmanagedWorkloadCostsNothing(t *testing.T) {
	s := newHarness(t, 10)
	for name, annotations := range map[string]map[string]string{
		"not enabled": {"swarm.io/spot-percentage": "60"}, "no numbers": {"swarm.io/spread": "enabled"}, "nothing": nil,
	} {
		s.editDeployment(func(d *appsv1.Deployment) { d.Annotations = annotations })
		s.client, s.coverage = nil, nil // any read or write fails
		if got := s.mustReconcile(); got != kit.Done() {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAnotherWorkloadOfTheSameNameIsNotWritten(t *testing.T) {
	s := newHarness(t, 10)
	old := s.getDeployment()
	old.UID = "another"
	if _, err := s.Reconcile(t.Context(), old); err == nil {
		t.Error("it was written")
	}
}

func TestRequeue(t *testing.T) {
	c := &controller{resync: 30 * time.Second}
	balanced := plan.Plan{Decision: split.Decision{Status: split.Balanced}}
	if got := c.requeue(balanced, noon); got == kit.Done() {
		t.Error("never")
	}
	balanced.RecheckAt = noon.Add(time.Second)
	if got := c.requeue(balanced, noon); got != kit.RequeueAfter(time.Second, "Balanced") {
		t.Errorf("%+v", got)
	}
	if got := (&controller{}).requeue(plan.Plan{}, noon); got != kit.Done() {
		t.Errorf("%+v", got)
	}
}

func TestMetricsAddUp(t *testing.T) {
	s := newMisplacedHarness(t)
	s.startLeader()
	if got := s.scrape(); len(got) > 0 {
		t.Errorf("who does not lead shows %v", got)
	}
	s.create(readyNode("bare", "none"))
	s.mustReconcile()
	want := []string{
		"moves_total from=on-demand to=spot verb=evict 1",
		"nodes class=on-demand labels=labelled 2", "nodes class=on-demand labels=unlabelled 1", "nodes class=spot labels=labelled 2",
		"pods class=on-demand state=current 10", "pods class=on-demand state=desired 4", "pods class=spot state=current 0",
		"pods class=spot state=desired 6",
		"workloads status=Balanced 0", "workloads status=BlockedByPDB 0", "workloads status=Invalid 0", "workloads status=Rebalancing 1",
		"workloads status=SpotUnavailable 0",
	}
	if got := s.scrape(); !slices.Equal(got, want) {
		t.Errorf("shown: %q", got)
	}
}

// scrape returns the result of a scrape.
func (s *harness) scrape() []string {
	s.t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	var lines []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			words := []string{strings.TrimPrefix(family.GetName(), "swarm_spread_")}
			for _, label := range metric.GetLabel() {
				words = append(words, label.GetName()+"="+label.GetValue())
			}
			words = append(words, fmt.Sprint(metric.GetGauge().GetValue()+metric.GetCounter().GetValue()))
			lines = append(lines, strings.Join(words, " "))
		}
	}
	return lines
}

func TestStatefulSetOrdinalsAreNumbers(t *testing.T) {
	s := newHarness(t, 0)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "db", UID: "db",
		Annotations: newDeployment(0).Annotations}}
	set.Spec.Replicas = new(int32(5))
	s.create(set)
	r := &reconciler[*appsv1.StatefulSet]{s.controller, v1alpha1.WorkloadStatefulSet, workload.StatefulSet}
	for _, name := range []string{"db-0", "db-1", "db-2", "db-3", "db-4"} {
		pod := newPod(name, s.clock)
		pod.OwnerReferences[0].Kind, pod.OwnerReferences[0].Name = "StatefulSet", "db"
		s.create(pod)
	}
	s.schedulePods()
	s.clock = s.clock.Add(time.Minute)
	if _, err := r.Reconcile(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.writes, []string{"evict db-4", "annotate db"}) {
		t.Errorf("written: %v", s.writes)
	}
}
