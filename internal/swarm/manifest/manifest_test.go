package manifest

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/golden"
)

// sample returns the Swarm of deploy/samples as the API server would return it.
func sample(t *testing.T) Swarm {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/samples/swarm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	swarm := &v1alpha1.Swarm{}
	if err := yaml.UnmarshalStrict(text, swarm); err != nil {
		t.Fatal(err)
	}
	swarm.Namespace, swarm.UID = "demo", "7b6c"
	for n := range swarm.Spec.Agents {
		if swarm.Spec.Agents[n].Slots == 0 {
			swarm.Spec.Agents[n].Slots = 1
		}
	}
	return Swarm{Swarm: swarm, Counts: []int{1, 3, 2}, Settings: Settings{Image: "localhost/swarm-agent:dev",
		Link: "swarm-operator.swarm-system:9444", Authority: "PEM\n", SpreadPrefix: v1alpha1.Prefix}}
}

// compareYAML compares objects, as YAML documents, with a golden file.
func compareYAML(t *testing.T, name string, objects ...any) {
	t.Helper()
	var text []byte
	for _, object := range objects {
		document, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, "---\n"...), document...)
	}
	golden.Compare(t, filepath.Join("testdata", name+".yaml"), string(text))
}

func TestGolden(t *testing.T) {
	swarm := sample(t)
	compareYAML(t, "service", swarm.Service())
	compareYAML(t, "config", swarm.Config())
	compareYAML(t, "coordinator", swarm.StatefulSets()[0])
	compareYAML(t, "coder", swarm.StatefulSets()[1])
	compareYAML(t, "agents", swarm.Agents()[0], swarm.Agents()[3])
}

func TestSwarmIsNotTouched(t *testing.T) {
	swarm := sample(t)
	before := swarm.DeepCopy()
	first, second := swarm.StatefulSets(), swarm.StatefulSets()
	compareYAML(t, "coordinator", second[0])
	if len(first) != 3 || len(swarm.Agents()) != 6 {
		t.Errorf("%d workloads, %d agents", len(first), len(swarm.Agents()))
	}
	was, _ := yaml.Marshal(before)
	is, _ := yaml.Marshal(swarm.Swarm)
	if string(was) != string(is) {
		t.Error("making objects has changed the Swarm")
	}
}

func TestSettingsOfTheUserAreKept(t *testing.T) {
	swarm := sample(t)
	pod := &swarm.Spec.Agents[0].Template.Spec
	user := int64(1000)
	pod.SecurityContext.RunAsUser = &user
	root := false
	pod.SecurityContext.RunAsNonRoot = &root
	made := swarm.StatefulSets()[0].Spec.Template
	if *made.Spec.SecurityContext.RunAsNonRoot || *made.Spec.SecurityContext.RunAsUser != 1000 {
		t.Errorf("got %+v", made.Spec.SecurityContext)
	}
	if made.Labels["team"] != "research" || made.Labels[v1alpha1.LabelSwarm] != "research" {
		t.Errorf("got %v", made.Labels)
	}
}

func TestSpreadAnnotationsAreOnEveryWorkload(t *testing.T) {
	for _, c := range []struct {
		reason string
		spread *v1alpha1.Spread
		want   map[string]string
	}{
		{"none, said as well, lest an earlier one stays", nil, map[string]string{"swarm.io/spread": "disabled"}},
		{"both numbers", &v1alpha1.Spread{MinOnDemand: new(int32(1)), SpotPercentage: new(int32(60))},
			map[string]string{"swarm.io/spread": "enabled", "swarm.io/min-on-demand": "1", "swarm.io/spot-percentage": "60"}},
		{"one number", &v1alpha1.Spread{SpotPercentage: new(int32(0))},
			map[string]string{"swarm.io/spread": "enabled", "swarm.io/min-on-demand": "", "swarm.io/spot-percentage": "0"}},
	} {
		swarm := sample(t)
		swarm.Spec.Spread = c.spread
		for _, set := range swarm.StatefulSets() {
			if !maps.Equal(set.Annotations, c.want) {
				t.Errorf("%s: %s says %v", c.reason, set.Name, set.Annotations)
			}
		}
	}
}

// The kubelet must not kill an agent before the grace period of its programs is over and their results are delivered.
func TestPodHasMoreTimeToStopThanItsPrograms(t *testing.T) {
	for reason, c := range map[string]struct {
		change func(*v1alpha1.AgentType)
		want   int64
	}{
		"the grace of the type":  {func(kind *v1alpha1.AgentType) { kind.Runtime.Exec.GracePeriodSeconds = new(int32(120)) }, 130},
		"no grace of its own":    {func(kind *v1alpha1.AgentType) { kind.Runtime = nil }, 40},
		"the user says how long": {func(kind *v1alpha1.AgentType) { kind.Template.Spec.TerminationGracePeriodSeconds = new(int64(7)) }, 7},
	} {
		swarm := sample(t)
		c.change(&swarm.Spec.Agents[0])
		if got := swarm.StatefulSets()[0].Spec.Template.Spec.TerminationGracePeriodSeconds; *got != c.want {
			t.Errorf("%s: %d s, want %d", reason, *got, c.want)
		}
	}
}

// A Swarm stored before the API server had the validation rule must not crash the operator.
func TestTemplateWithoutContainersMakesAWorkload(t *testing.T) {
	swarm := sample(t)
	swarm.Spec.Agents[0].Template = corev1.PodTemplateSpec{}
	if made := swarm.StatefulSets(); len(made) != 3 || len(made[0].Spec.Template.Spec.Containers) != 0 {
		t.Errorf("%d workloads, the first with %d containers", len(made), len(made[0].Spec.Template.Spec.Containers))
	}
}

// A namespace with a ResourceQuota refuses pods whose containers have no resource requests and limits.
func TestOwnContainersDeclareResources(t *testing.T) {
	for _, set := range sample(t).StatefulSets() {
		own := set.Spec.Template.Spec.InitContainers[0].Resources
		for _, list := range []corev1.ResourceList{own.Requests, own.Limits} {
			if list.Cpu().IsZero() || list.Memory().IsZero() {
				t.Errorf("%s: %v", set.Name, own)
			}
		}
	}
}

// The agent writes its process id to the termination message path, from which the operator knows that it has ended.
func TestAgentKnowsItsTerminationMessagePath(t *testing.T) {
	swarm := sample(t)
	first := &swarm.Spec.Agents[0].Template.Spec.Containers[0]
	first.TerminationMessagePath, first.TerminationMessagePolicy = "/var/log/last-words", corev1.TerminationMessageFallbackToLogsOnError
	first.Env = append(first.Env, corev1.EnvVar{Name: "SWARM_TERMINATION_LOG", Value: "/elsewhere"})
	for n, want := range []string{"/var/log/last-words", ""} {
		made := swarm.StatefulSets()[n].Spec.Template.Spec.Containers[0]
		if got := valueOf(made.Env, "SWARM_TERMINATION_LOG"); got != want || made.TerminationMessagePath != want {
			t.Errorf("the agent writes to %q, the kubelet reads %q, want %q", got, made.TerminationMessagePath, want)
		}
	}
}

// valueOf returns the value that a container sees: of two variables with the same name, the later one wins.
func valueOf(variables []corev1.EnvVar, name string) (value string) {
	for _, variable := range variables {
		if variable.Name == name {
			value = variable.Value
		}
	}
	return value
}
