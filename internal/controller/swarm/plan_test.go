package swarm

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/manifest"
)

// newSwarm returns a swarm of two types as the API server would return it.
func newSwarm(change func(*v1alpha1.SwarmSpec)) *v1alpha1.Swarm {
	kind := func(name string) v1alpha1.AgentType {
		return v1alpha1.AgentType{
			Type: name, Slots: 1, Weight: 1,
			Runtime:  &v1alpha1.AgentRuntime{Exec: &v1alpha1.ExecRuntime{Command: []string{"/bin/work"}}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "example/agent:1"}}}},
		}
	}
	swarm := &v1alpha1.Swarm{
		ObjectMeta: metav1.ObjectMeta{Name: "research", Namespace: "demo", UID: "7b6c"},
		Spec: v1alpha1.SwarmSpec{
			Topology: v1alpha1.TopologyMesh, Strategy: v1alpha1.SwarmBalanced, MaxAgents: 10, MinAgents: new(int32(1)),
			Replicas: new(int32(3)), Agents: []v1alpha1.AgentType{kind("coder"), kind("analyst")},
		},
	}
	if change != nil {
		change(&swarm.Spec)
	}
	return swarm
}

// appliedSnapshot returns the snapshot after an API server that sets defaults has stored the plan.
func appliedSnapshot(plan Plan) snapshot {
	var snapshot snapshot
	for _, object := range plan.Apply {
		object.SetUID("made")
		switch object := object.(type) {
		case *appsv1.StatefulSet:
			object.Spec.RevisionHistoryLimit = new(int32(10))
			object.Spec.Template.Spec.Containers[0].ImagePullPolicy = corev1.PullIfNotPresent
			snapshot.workloads = append(snapshot.workloads, *object)
		case *v1alpha1.Agent:
			snapshot.agents = append(snapshot.agents, *object)
		default:
			snapshot.serviceAndConfig = append(snapshot.serviceAndConfig, object)
		}
	}
	return snapshot
}

func identities(objects []client.Object) []string {
	var all []string
	for _, object := range objects {
		all = append(all, identity(object))
	}
	slices.Sort(all)
	return all
}

func TestFirstPlanMakesEverything(t *testing.T) {
	first := plan(desiredSwarm(newSwarm(nil), manifest.Settings{}), snapshot{})
	want := []string{
		"*v1.ConfigMap research-config", "*v1.Service research", "*v1.StatefulSet research-analyst", "*v1.StatefulSet research-coder",
		"*v1alpha1.Agent research-analyst-0", "*v1alpha1.Agent research-coder-0", "*v1alpha1.Agent research-coder-1",
	}
	if got := identities(first.Apply); !slices.Equal(got, want) || len(first.Delete) > 0 {
		t.Errorf("apply %v, delete %v", got, identities(first.Delete))
	}
}

func TestSecondPlanIsEmpty(t *testing.T) {
	desired := desiredSwarm(newSwarm(nil), manifest.Settings{Authority: "PEM"})
	second := plan(desired, appliedSnapshot(plan(desired, snapshot{})))
	if len(second.Apply)+len(second.Delete) > 0 {
		t.Errorf("apply %v, delete %v", identities(second.Apply), identities(second.Delete))
	}
}

func TestScalingInDeletesTheLastAgents(t *testing.T) {
	before := appliedSnapshot(plan(desiredSwarm(newSwarm(nil), manifest.Settings{}), snapshot{}))
	next := plan(desiredSwarm(newSwarm(func(spec *v1alpha1.SwarmSpec) { spec.Replicas = new(int32(2)) }), manifest.Settings{}), before)
	if got := identities(next.Delete); !slices.Equal(got, []string{"*v1alpha1.Agent research-coder-1"}) {
		t.Errorf("delete %v", got)
	}
	if got := identities(next.Apply); !slices.Equal(got, []string{"*v1.ConfigMap research-config", "*v1.StatefulSet research-coder"}) {
		t.Errorf("apply %v", got)
	}
}

func TestDriftIsRepaired(t *testing.T) {
	desired := desiredSwarm(newSwarm(nil), manifest.Settings{})
	drifted := appliedSnapshot(plan(desired, snapshot{}))
	drifted.workloads[0].Spec.Replicas = new(int32(7))
	if got := identities(plan(desired, drifted).Apply); !slices.Equal(got, []string{identity(&drifted.workloads[0])}) {
		t.Errorf("apply %v", got)
	}
}

func TestTypeThatIsNoLongerDeclaredGoes(t *testing.T) {
	before := appliedSnapshot(plan(desiredSwarm(newSwarm(nil), manifest.Settings{}), snapshot{}))
	fewer := newSwarm(func(spec *v1alpha1.SwarmSpec) { spec.Agents = spec.Agents[:1] })
	next := plan(desiredSwarm(fewer, manifest.Settings{}), before)
	if got := identities(next.Delete); !slices.Equal(got, []string{"*v1.StatefulSet research-analyst", "*v1alpha1.Agent research-analyst-0"}) {
		t.Errorf("delete %v", got)
	}
}

func TestDesiredReplicas(t *testing.T) {
	for _, c := range []struct {
		reason string
		change func(*v1alpha1.SwarmSpec)
		want   []int
	}{
		{"as many as wanted, evenly", nil, []int{2, 1}},
		{"never more than maxAgents", func(s *v1alpha1.SwarmSpec) { s.Replicas = new(int32(50)) }, []int{5, 5}},
		{"never fewer than minAgents", func(s *v1alpha1.SwarmSpec) { s.Replicas, s.MinAgents = new(int32(0)), new(int32(4)) }, []int{2, 2}},
		{"none when none is wanted", func(s *v1alpha1.SwarmSpec) { s.Replicas, s.MinAgents = new(int32(0)), new(int32(0)) }, []int{0, 0}},
		{"one when replicas is not set", func(s *v1alpha1.SwarmSpec) { s.Replicas, s.MinAgents = nil, new(int32(0)) }, []int{1, 0}},
		{"one when neither is set", func(s *v1alpha1.SwarmSpec) { s.Replicas, s.MinAgents = nil, nil }, []int{1, 0}},
		{"at least one when minAgents is not set", func(s *v1alpha1.SwarmSpec) { s.Replicas, s.MinAgents = new(int32(0)), nil }, []int{1, 0}},
		{"none when suspended", func(s *v1alpha1.SwarmSpec) { s.Mode = v1alpha1.SwarmSuspended }, []int{0, 0}},
		{"by weight when specialized", func(s *v1alpha1.SwarmSpec) {
			s.Strategy, s.Replicas, s.Agents[1].Weight = v1alpha1.SwarmSpecialized, new(int32(5)), 4
		}, []int{1, 4}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			if got := agentCounts(newSwarm(c.change)); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestAgentsThatHoldAttemptsStayUntilTheyDoNot(t *testing.T) {
	before := appliedSnapshot(plan(desiredSwarm(newSwarm(nil), manifest.Settings{}), snapshot{}))
	fewer := desiredSwarm(newSwarm(func(spec *v1alpha1.SwarmSpec) { spec.Replicas = new(int32(1)) }), manifest.Settings{})
	if got := leavingAgents(fewer, before.agents); !slices.Equal(got, []string{"research-analyst-0", "research-coder-1"}) {
		t.Errorf("leaving %v", got)
	}
	before.attempts = map[string]int{"research-coder-1": 1}
	limited := limitScaleIn(fewer, before)
	if !slices.Equal(limited.Counts, []int{2, 0}) {
		t.Errorf("counts %v: the StatefulSet must not shrink below a busy agent", limited.Counts)
	}
	if got := identities(plan(limited, before).Delete); !slices.Equal(got, []string{"*v1alpha1.Agent research-analyst-0"}) {
		t.Errorf("delete %v", got)
	}
}

func TestTypeThatIsGoneStaysWhileItsAgentsAreBusy(t *testing.T) {
	before := appliedSnapshot(plan(desiredSwarm(newSwarm(nil), manifest.Settings{}), snapshot{}))
	before.attempts = map[string]int{"research-analyst-0": 1}
	fewer := desiredSwarm(newSwarm(func(spec *v1alpha1.SwarmSpec) { spec.Agents = spec.Agents[:1] }), manifest.Settings{})
	if got := identities(plan(limitScaleIn(fewer, before), before).Delete); len(got) > 0 {
		t.Errorf("delete %v", got)
	}
}

func TestRulesFollowTheMode(t *testing.T) {
	for mode, reason := range map[v1alpha1.SwarmMode]v1alpha1.Reason{
		v1alpha1.SwarmRunning: "", v1alpha1.SwarmPaused: v1alpha1.ReasonPaused, v1alpha1.SwarmDraining: v1alpha1.ReasonDraining,
		v1alpha1.SwarmSuspended: v1alpha1.ReasonSuspended,
	} {
		got := swarmRules(desiredSwarm(newSwarm(func(spec *v1alpha1.SwarmSpec) { spec.Mode = mode }), manifest.Settings{}), snapshot{})
		if got.Halt == nil != (reason == "") || got.Halt != nil && got.Halt.Reason != reason {
			t.Errorf("%s: got %v", mode, got.Halt)
		}
	}
}

// The cache reads protobuf, in which the parts of an object do not carry their kind.
func TestWorkloadFromTheCacheIsNoDifference(t *testing.T) {
	swarm := newSwarm(func(spec *v1alpha1.SwarmSpec) {
		spec.Agents[0].Storage = &v1alpha1.AgentStorage{Size: resource.MustParse("0.5Gi")}
		spec.Agents[0].Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000m")}
	})
	desired := desiredSwarm(swarm, manifest.Settings{Authority: "PEM"})
	var snapshot snapshot
	for _, set := range desired.StatefulSets() {
		set.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		if set.Spec.Template.Labels[v1alpha1.LabelAgentType] != "coder" {
			set.Spec.Template.Spec.Containers[0].Resources.Requests = nil
		}
		text, err := set.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		stored := appsv1.StatefulSet{}
		if err := stored.Unmarshal(text); err != nil {
			t.Fatal(err)
		}
		snapshot.workloads = append(snapshot.workloads, stored)
	}
	for _, object := range plan(desired, snapshot).Apply {
		if _, isWorkload := object.(*appsv1.StatefulSet); isWorkload {
			t.Errorf("applies %s again", object.GetName())
		}
	}
}
