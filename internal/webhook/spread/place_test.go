package spread

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	"github.com/swarm-io/swarm-operator/internal/testkit/build"
	_ "github.com/swarm-io/swarm-operator/internal/testkit/property" // a fixed seed
)

const preemptible = "cloud.example/preemptible"

// multiLabelSettings has two keys for spot nodes, one of them with two values.
func multiLabelSettings() snapshot.Settings {
	return snapshot.Settings{
		Prefix: "spread.example/",
		Spot: []snapshot.Label{{Key: build.CapacityType, Value: "spot"}, {Key: preemptible, Value: "true"},
			{Key: build.CapacityType, Value: "preemptible"}},
		OnDemand: []snapshot.Label{{Key: build.CapacityType, Value: "on-demand"}, {Key: build.CapacityType, Value: "reserved"}},
	}
}

func in(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func notIn(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpNotIn, Values: values}
}

func term(expressions ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: expressions}
}

// requiring returns a pod with node requirements of its owner.
func requiring(terms ...corev1.NodeSelectorTerm) *corev1.Pod {
	pod := build.Pod("", "abc", nil)
	pod.Spec = corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}}
	return pod
}

func required(pod *corev1.Pod) []corev1.NodeSelectorTerm {
	return pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

func TestNodesAreRequired(t *testing.T) {
	zone, disk := in("zone", "a", "b"), in("disk", "ssd")
	named := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{in("metadata.name", "n1")}}
	narrower := func(of corev1.NodeSelectorTerm, by ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: of.MatchFields, MatchExpressions: slices.Concat(of.MatchExpressions, by)}
	}
	bare, halfway, further := requiring(), requiring(), requiring()
	bare.Spec.Affinity, halfway.Spec.Affinity.NodeAffinity = nil, nil
	further.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
	spot, onDemand := in(build.CapacityType, "spot"), notIn(build.CapacityType, "spot")
	manySpot, manyOnDemand := in(build.CapacityType, "spot", "preemptible"),
		[]corev1.NodeSelectorRequirement{notIn(build.CapacityType, "spot", "preemptible"), notIn(preemptible, "true")}
	for _, c := range []struct {
		reason   string
		pod      *corev1.Pod
		class    split.Class
		settings snapshot.Settings
		want     []corev1.NodeSelectorTerm
	}{
		{"no affinity at all", bare, split.Spot, build.Settings(), []corev1.NodeSelectorTerm{term(spot)}},
		{"affinity of other kinds", halfway, split.OnDemand, build.Settings(), []corev1.NodeSelectorTerm{term(onDemand)}},
		{"nothing required", further, split.Spot, build.Settings(), []corev1.NodeSelectorTerm{term(spot)}},
		{"an empty list", requiring(), split.OnDemand, build.Settings(), []corev1.NodeSelectorTerm{term(onDemand)}},
		{"one term", requiring(term(zone, disk)), split.Spot, build.Settings(), []corev1.NodeSelectorTerm{term(zone, disk, spot)}},
		{"alternatives", requiring(term(zone), term(disk)), split.OnDemand, build.Settings(),
			[]corev1.NodeSelectorTerm{term(zone, onDemand), term(disk, onDemand)}},
		{"a term of fields", requiring(named), split.Spot, build.Settings(), []corev1.NodeSelectorTerm{narrower(named, spot)}},
		{"a term that matches no node", requiring(corev1.NodeSelectorTerm{}, term(zone)), split.Spot, build.Settings(),
			[]corev1.NodeSelectorTerm{{}, term(zone, spot)}},
		{"no term that matches a node", requiring(corev1.NodeSelectorTerm{}), split.Spot, build.Settings(), []corev1.NodeSelectorTerm{{}}},
		{"several keys are alternatives", requiring(), split.Spot, multiLabelSettings(),
			[]corev1.NodeSelectorTerm{term(manySpot), term(in(preemptible, "true"))}},
		{"several keys for each term", requiring(term(zone), named), split.Spot, multiLabelSettings(), []corev1.NodeSelectorTerm{
			term(zone, manySpot), term(zone, in(preemptible, "true")), narrower(named, manySpot), narrower(named, in(preemptible, "true"))}},
		{"none of several keys", requiring(term(zone), term(disk)), split.OnDemand, multiLabelSettings(),
			[]corev1.NodeSelectorTerm{term(slices.Concat([]corev1.NodeSelectorRequirement{zone}, manyOnDemand)...),
				term(slices.Concat([]corev1.NodeSelectorRequirement{disk}, manyOnDemand)...)}},
		{"the same twice", requiring(term(zone), term(zone)), split.Spot, build.Settings(), []corev1.NodeSelectorTerm{term(zone, spot)}},
		{"placed before", requiring(term(zone, spot)), split.Spot, build.Settings(), []corev1.NodeSelectorTerm{term(zone, spot)}},
		{"placed for the other class before", requiring(term(zone, spot), term(disk, spot)), split.OnDemand, build.Settings(),
			[]corev1.NodeSelectorTerm{term(zone, onDemand), term(disk, onDemand)}},
		{"nothing but our own", requiring(term(manySpot), term(in(preemptible, "true"))), split.OnDemand, multiLabelSettings(),
			[]corev1.NodeSelectorTerm{term(manyOnDemand...)}},
		{"much like our own", requiring(term(in(build.CapacityType, "spot", "gold"))), split.Spot, build.Settings(),
			[]corev1.NodeSelectorTerm{term(in(build.CapacityType, "spot", "gold"), spot)}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			pod := c.pod.DeepCopy()
			for range 2 {
				if Place(pod, c.class, 3, c.settings); !reflect.DeepEqual(required(pod), c.want) {
					t.Fatalf("got %+v, want %+v", required(pod), c.want)
				}
			}
		})
	}
}

func TestClassesWithoutLabelsRequireNothing(t *testing.T) {
	for _, class := range []split.Class{split.Spot, split.OnDemand} {
		pod := build.Pod("", "abc", nil)
		if Place(pod, class, 3, snapshot.Settings{}); pod.Spec.Affinity != nil || pod.Spec.Tolerations != nil {
			t.Errorf("%s: got %+v", class, pod.Spec)
		}
	}
}

func TestTaintsOfTheClassAreTolerated(t *testing.T) {
	ours := corev1.Toleration{Key: build.CapacityType, Operator: corev1.TolerationOpEqual, Value: "spot", Effect: corev1.TaintEffectNoSchedule}
	other := corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}
	all, brief := corev1.Toleration{Operator: corev1.TolerationOpExists}, ours
	brief.Effect = corev1.TaintEffectNoExecute
	for _, c := range []struct {
		reason    string
		has, want []corev1.Toleration
	}{
		{"none", nil, []corev1.Toleration{ours}},
		{"others", []corev1.Toleration{other}, []corev1.Toleration{other, ours}},
		{"the same", []corev1.Toleration{ours, other}, []corev1.Toleration{ours, other}},
		{"everything", []corev1.Toleration{all}, []corev1.Toleration{all}},
		{"another effect", []corev1.Toleration{brief}, []corev1.Toleration{brief, ours}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			pod := build.Pod("", "abc", nil)
			pod.Spec.Tolerations = c.has
			for range 2 {
				if Place(pod, split.Spot, 3, build.Settings()); !reflect.DeepEqual(pod.Spec.Tolerations, c.want) {
					t.Fatalf("got %+v", pod.Spec.Tolerations)
				}
			}
		})
	}
}

func TestPlacementAnnotations(t *testing.T) {
	const number, class, cost = "swarm.io/spread-number", "swarm.io/spread-class", corev1.PodDeletionCost
	for _, c := range []struct {
		reason    string
		owner     v1alpha1.WorkloadKind
		has, want map[string]string
	}{
		{"a Deployment's", v1alpha1.WorkloadDeployment, nil, map[string]string{number: "3", class: "spot", cost: "-3"}},
		{"with others", v1alpha1.WorkloadDeployment, map[string]string{"a": "b"},
			map[string]string{"a": "b", number: "3", class: "spot", cost: "-3"}},
		{"a StatefulSet's", v1alpha1.WorkloadStatefulSet, nil, map[string]string{number: "3", class: "spot"}},
		{"a template with a cost of its own", v1alpha1.WorkloadDeployment, map[string]string{cost: "7"},
			map[string]string{number: "3", class: "spot", cost: "7"}},
		{"a template with a cost of 0", v1alpha1.WorkloadDeployment, map[string]string{cost: "0"},
			map[string]string{number: "3", class: "spot", cost: "0"}},
		{"a StatefulSet's with a cost of its own", v1alpha1.WorkloadStatefulSet, map[string]string{cost: "7"},
			map[string]string{number: "3", class: "spot", cost: "7"}},
		{"placed under another number before", v1alpha1.WorkloadDeployment, map[string]string{number: "5", class: "on-demand", cost: "-5"},
			map[string]string{number: "3", class: "spot", cost: "-3"}},
		{"placed before with a cost of its own", v1alpha1.WorkloadDeployment, map[string]string{number: "5", class: "on-demand", cost: "7"},
			map[string]string{number: "3", class: "spot", cost: "7"}},
		{"a template that pretends", v1alpha1.WorkloadDeployment, map[string]string{number: "first", class: "gold"},
			map[string]string{number: "3", class: "spot", cost: "-3"}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			pod := build.Pod("", "abc", maps.Clone(c.has))
			if c.owner == v1alpha1.WorkloadStatefulSet {
				pod.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", Controller: new(true)}}
			}
			for range 2 {
				if Place(pod, split.Spot, 3, build.Settings()); !maps.Equal(pod.Annotations, c.want) {
					t.Fatalf("got %v", pod.Annotations)
				}
			}
		})
	}
	first := build.Pod("", "abc", nil)
	if Place(first, split.OnDemand, 0, build.Settings()); first.Annotations[cost] != "0" {
		t.Errorf("the first pod costs %q, which the API server refuses", first.Annotations[cost])
	}
}

// drawTerms generates user requirements.
func drawTerms(t *rapid.T) []corev1.NodeSelectorTerm {
	requirement := rapid.SampledFrom([]corev1.NodeSelectorRequirement{in("zone", "a"), in("zone", "a", "b"), notIn("zone", "a"),
		in("disk", "ssd"), {Key: "disk", Operator: corev1.NodeSelectorOpExists}})
	field := rapid.SampledFrom([]corev1.NodeSelectorRequirement{in("metadata.name", "n"), notIn("metadata.name", "n")})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: rapid.SliceOfN(requirement, 0, 3).Draw(t, "expressions"),
			MatchFields: rapid.SliceOfN(field, 0, 1).Draw(t, "fields")}
	}), 0, 4).Draw(t, "terms")
}

func drawNode(t *rapid.T) *corev1.Node {
	labels := map[string]string{}
	for key, values := range map[string][]string{"zone": {"a", "b", "c"}, "disk": {"ssd", "hdd"},
		build.CapacityType: {"spot", "preemptible", "on-demand", "?"}, preemptible: {"true", "false"}} {
		if rapid.Bool().Draw(t, "has "+key) {
			labels[key] = rapid.SampledFrom(values).Draw(t, key)
		}
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: rapid.SampledFrom([]string{"n", "m"}).Draw(t, "name"), Labels: labels}}
}

func matches(t *rapid.T, pod *corev1.Pod, node *corev1.Node) bool {
	found, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Whatever users require: a placed pod goes to exactly the nodes of its class where it could have gone before, also when it was placed
// elsewhere in between, and placing it again changes nothing.
func TestPlaceOnlyRestrictsToTheClass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := rapid.SampledFrom([]snapshot.Settings{build.Settings(), multiLabelSettings()}).Draw(t, "settings")
		class := rapid.SampledFrom([]split.Class{split.Spot, split.OnDemand})
		before := build.Pod("", "abc", nil)
		if terms := drawTerms(t); len(terms) > 0 {
			before = requiring(terms...)
		}
		placed, template := before.DeepCopy(), before.DeepCopy()
		var last split.Class
		for n, each := range rapid.SliceOfN(class, 1, 3).Draw(t, "classes") {
			Place(placed, each, n, settings)
			last = each
		}
		once := placed.DeepCopy()
		if Place(placed, last, 7, settings); !reflect.DeepEqual(placed.Spec, once.Spec) {
			t.Fatalf("placed again: %+v, before: %+v", placed.Spec, once.Spec)
		}
		if !reflect.DeepEqual(before, template) {
			t.Fatal("something shared has changed")
		}
		node := drawNode(t)
		if got, want := matches(t, placed, node), matches(t, before, node) && settings.Node(node).Class == last; got != want {
			t.Fatalf("%s on %v: %t, want %t", last, node.Labels, got, want)
		}
	})
}
