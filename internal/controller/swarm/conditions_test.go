package swarm

import (
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/manifest"
	"github.com/swarm-io/swarm-operator/kit"
)

// conditionSummary returns the conditions of a swarm in a snapshot, as type, status and reason.
func conditionSummary(swarm *v1alpha1.Swarm, snapshot snapshot, applyErr error) []string {
	desired := desiredSwarm(swarm, manifest.Settings{})
	report := (&kit.Status[*v1alpha1.Swarm]{}).Report(swarm, &swarm.Status.Conditions)
	setCounts(desired, snapshot)
	setProgressConditions(report, desired, snapshot)
	setDegradedCondition(report, desired, snapshot, applyErr)
	var all []string
	for _, condition := range swarm.Status.Conditions {
		all = append(all, condition.Type+" "+string(condition.Status)+" "+condition.Reason)
	}
	slices.Sort(all)
	return all
}

// readySnapshot returns the snapshot of a swarm of two coders and an analyst, with all agents ready.
func readySnapshot() snapshot {
	snapshot := appliedSnapshot(plan(desiredSwarm(newSwarm(nil), manifest.Settings{}), snapshot{}))
	for n := range snapshot.agents {
		snapshot.agents[n].Status.Conditions = []metav1.Condition{v1alpha1.Ready(1, "Linked", "")}
	}
	return snapshot
}

func TestConditionsOfASwarm(t *testing.T) {
	failing := readySnapshot()
	failing.agents[0].Status.Phase = v1alpha1.AgentFailed
	notLinked := readySnapshot()
	notLinked.agents[0].Status.Conditions = nil
	for reason, c := range map[string]struct {
		change func(*v1alpha1.SwarmSpec)
		found  snapshot
		failed error
		want   []string
	}{
		"all is well": {nil, readySnapshot(), nil, []string{"Degraded False Available", "Progressing False Settled", "Ready True Available"}},
		"an agent is missing": {nil, notLinked, nil, []string{"Degraded False Available", "Progressing True Initializing",
			"Ready False Initializing"}},
		"agents are to leave": {func(s *v1alpha1.SwarmSpec) { s.Replicas = new(int32(2)) }, readySnapshot(), nil,
			[]string{"Degraded False Available", "Progressing True Scaling", "Ready True Available"}},
		"suspended": {func(s *v1alpha1.SwarmSpec) { s.Mode = v1alpha1.SwarmSuspended }, snapshot{}, nil,
			[]string{"Degraded False Available", "Progressing False Suspended", "Ready False Suspended"}},
		"an agent fails": {nil, failing, nil, []string{"Degraded True AgentsFailing", "Progressing False Settled", "Ready True Available"}},
		"a runtime that is not supported": {func(s *v1alpha1.SwarmSpec) {
			s.Agents[0].Runtime = &v1alpha1.AgentRuntime{HTTP: &v1alpha1.HTTPRuntime{}}
		}, readySnapshot(), nil, []string{"Degraded True NotSupported", "Progressing False Settled", "Ready True Available"}},
		"a write was refused": {nil, readySnapshot(), errors.New("refused"), []string{"Degraded True ApplyFailed", "Progressing False Settled",
			"Ready True Available"}},
	} {
		t.Run(reason, func(t *testing.T) {
			if got := conditionSummary(newSwarm(c.change), c.found, c.failed); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestPhaseOfASwarm(t *testing.T) {
	ready := []metav1.Condition{v1alpha1.Ready(1, "Available", "")}
	for reason, c := range map[string]struct {
		change func(*v1alpha1.Swarm)
		want   v1alpha1.SwarmPhase
	}{
		"new":            {func(*v1alpha1.Swarm) {}, v1alpha1.SwarmPhaseInitializing},
		"ready":          {func(s *v1alpha1.Swarm) { s.Status.Conditions = ready }, v1alpha1.SwarmPhaseRunning},
		"was ready once": {func(s *v1alpha1.Swarm) { s.Status.Phase = v1alpha1.SwarmPhaseRunning }, v1alpha1.SwarmPhaseRunning},
		"ready and being deleted": {func(s *v1alpha1.Swarm) { s.Status.Conditions, s.DeletionTimestamp = ready, new(metav1.Now()) },
			v1alpha1.SwarmPhaseTerminating},
	} {
		swarm := &v1alpha1.Swarm{}
		c.change(swarm)
		if got := phase(swarm); got != c.want {
			t.Errorf("%s: got %q, want %q", reason, got, c.want)
		}
	}
}

func TestSwarmWithoutReplicasHasOneAgent(t *testing.T) {
	swarm := newSwarm(func(spec *v1alpha1.SwarmSpec) { spec.Replicas, spec.MinAgents = nil, nil })
	if got := desiredReplicas(swarm); got != 1 {
		t.Errorf("got %d", got)
	}
}

// The wanted state must not become what is currently possible: the status would report a shrinking swarm as settled.
func TestDrainingDoesNotChangeWhatIsWanted(t *testing.T) {
	snapshot := readySnapshot()
	snapshot.attempts = map[string]int{"research-coder-1": 1}
	desired := desiredSwarm(newSwarm(func(spec *v1alpha1.SwarmSpec) { spec.Replicas = new(int32(1)) }), manifest.Settings{})
	before := slices.Clone(desired.Counts)
	if limited := limitScaleIn(desired, snapshot); !slices.Equal(desired.Counts, before) || slices.Equal(limited.Counts, before) {
		t.Errorf("wanted %v, before %v, reached %v", desired.Counts, before, limited.Counts)
	}
}
