package fuzz

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/swarm-io/swarm-operator/internal/testkit/schemafuzz"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// A verb is an operation on an object.
type verb string

const (
	create   verb = "create" // or, if there is one of that name, change its spec
	mutate   verb = "mutate" // one field of the spec
	annotate verb = "annotate"
	remove   verb = "remove"
)

// A fuzzStep is one request. What it does follows from the seed alone, not from the answers to the steps before.
type fuzzStep struct {
	verb   verb
	kind   string
	name   string
	object map[string]any // of create; of mutate and annotate, the patch
	policy string         // of remove
}

// A writer generates steps.
type writer struct {
	rand      *rand.Rand
	generator *schemafuzz.Generator
	schemas   map[string]apiextensionsv1.JSONSchemaProps // of our kinds
	kinds     []string
}

func newWriter(seed, round uint64) *writer {
	GinkgoHelper()
	r := rand.New(rand.NewPCG(seed, round))
	w := &writer{rand: r, generator: schemafuzz.New(r, rules), schemas: map[string]apiextensionsv1.JSONSchemaProps{}}
	files, err := filepath.Glob(testcluster.FromRoot("deploy", "crds", "*.yaml"))
	Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		definition := &apiextensionsv1.CustomResourceDefinition{}
		Expect(yaml.Unmarshal(text, definition)).To(Succeed())
		kind := definition.Spec.Names.Kind
		w.schemas[kind] = *definition.Spec.Versions[0].Schema.OpenAPIV3Schema
		w.kinds = append(w.kinds, kind)
	}
	Expect(w.kinds).To(HaveLen(5))
	return w
}

// weights are how often each kind is drawn.
var weights = map[string]int{"Swarm": 4, "Task": 5, "Agent": 2, "WorkerPool": 5, "SwarmSnapshot": 2, "ConfigMap": 3, "Deployment": 1,
	"StatefulSet": 3}

// names are the names of each kind.
var names = map[string][]string{
	"Swarm": swarms, "Task": tasks, "Agent": agents, "WorkerPool": pools, "SwarmSnapshot": snapshots, "ConfigMap": configMaps,
	"Deployment": workloads, "StatefulSet": workloads,
}

// nextStep generates the next step.
func (w *writer) nextStep() fuzzStep {
	s := fuzzStep{verb: draw(w.rand, []verb{create, create, create, create, create, create, mutate, mutate, annotate, remove}), kind: w.kind()}
	s.name = draw(w.rand, names[s.kind])
	switch s.verb {
	case create:
		if w.rand.IntN(3) == 0 {
			s.name = fmt.Sprint(s.name, "-", w.rand.IntN(3))
		}
		s.object = w.newObject(s.kind, s.name)
	case mutate:
		s.object = w.mutation(s.kind)
	case annotate:
		s.object = map[string]any{"metadata": map[string]any{"annotations": w.annotations()}}
	case remove:
		s.policy = draw(w.rand, []string{"Background", "Foreground", "Orphan"})
	}
	return s
}

func (w *writer) kind() string {
	var choices []string
	for kind, weight := range weights {
		choices = append(choices, slices.Repeat([]string{kind}, weight)...)
	}
	slices.Sort(choices)
	return draw(w.rand, choices)
}

// newObject is an object of that kind.
func (w *writer) newObject(kind, name string) map[string]any {
	metadata := map[string]any{"name": name}
	if w.rand.IntN(4) == 0 {
		metadata["annotations"] = w.annotations()
	}
	var object map[string]any
	switch schema, ours := w.schemas[kind]; {
	case ours:
		object = map[string]any{"apiVersion": "swarm.io/v1alpha1", "spec": w.generator.Value(kind+".spec", schema.Properties["spec"])}
	case kind == "ConfigMap":
		object = w.configMap()
	default:
		object = w.workload(metadata)
	}
	object["kind"], object["metadata"] = kind, metadata
	return object
}

// mutation is a patch of one field of a spec, or of the content of a ConfigMap.
func (w *writer) mutation(kind string) map[string]any {
	schema, ours := w.schemas[kind]
	switch {
	case kind == "ConfigMap":
		return map[string]any{"data": w.configMap()["data"]}
	case !ours:
		return map[string]any{"spec": map[string]any{"replicas": int64(w.rand.IntN(5))}}
	}
	fields := schema.Properties["spec"].Properties
	var choices []string
	for name := range fields {
		choices = append(choices, name)
	}
	slices.Sort(choices)
	name := draw(w.rand, choices)
	if w.rand.IntN(5) == 0 {
		return map[string]any{"spec": map[string]any{name: nil}}
	}
	return map[string]any{"spec": map[string]any{name: w.generator.Value(kind+".spec."+name, fields[name])}}
}

// annotated are our annotations, and some that only look like them.
var annotated = []string{
	"paused", "paused", "reconcile-at", "reset", "config-version", "nudge", "fence", "ledger", "checksum", "term", "registered-by", "unknown",
	"spread", "spot-percentage", "min-on-demand", "pdb-override", "disruption-windows", "desired-distribution", "spread-status",
	"spread-settings", "spread-number",
}

var annotationValues = []string{
	"true", "true", "false", "", "yes", "TRUE", "enabled", "disabled", "50", "-1", "101%", "9223372036854775808", "now", "{", "{}", "null",
	"[]", "0 2 * * * for 3h", "* * * * * for 0s",
	"a\nb", "on-demand:1,spot:1", strings.Repeat("9", 5000), "\u0000x", "ünïcode",
}

func (w *writer) annotations() map[string]any {
	made := map[string]any{}
	for range 1 + w.rand.IntN(3) {
		made["swarm.io/"+draw(w.rand, annotated)] = draw(w.rand, annotationValues)
	}
	return made
}

// contents are the contents of ConfigMaps.
var contents = []string{
	"", "\n", "{}", `{"a":1}`, `{"a":`, "[1,2]", "null", "jobs:\n- a\n- b\n", "jobs:\n- name: a\n  weight: 3\n- name: a\n", "jobs: 7\n",
	"a\nb\nc\n", "a\n\n a \n\tb\n",
	"workers:\n  web-0:\n    jobs: [a]\n", "version: 9223372036854775807\n", "\u0000", strings.Repeat("job\n", 500),
	strings.Repeat("x", 20_000), "a: &a [*a]", "ünï\ncode",
}

func (w *writer) configMap() map[string]any {
	data := map[string]any{}
	for _, key := range keys[:3] {
		if w.rand.IntN(3) > 0 {
			data[key] = draw(w.rand, contents)
		}
	}
	if w.rand.IntN(3) == 0 {
		data["jobs.yaml"] = fmt.Sprintf("jobs:\n- j%d\n- j%d\n- j%d\n", w.rand.IntN(5), 5+w.rand.IntN(5), 10+w.rand.IntN(5))
	}
	return map[string]any{"apiVersion": "v1", "data": data}
}

// workload is a Deployment or StatefulSet that the API server accepts.
func (w *writer) workload(metadata map[string]any) map[string]any {
	if w.rand.IntN(2) == 0 {
		metadata["labels"] = map[string]any{"swarm.io/pool": draw(w.rand, []string{"cams", "true", "", "p1"}),
			"swarm.io/swarm": draw(w.rand, swarms)}
	}
	if w.rand.IntN(3) == 0 {
		metadata["annotations"] = map[string]any{"swarm.io/spread": "enabled", "swarm.io/spot-percentage": draw(w.rand, annotationValues)}
	}
	labels := map[string]any{"app": metadata["name"]}
	return map[string]any{"apiVersion": "apps/v1", "spec": map[string]any{
		"replicas": int64(w.rand.IntN(4)), "serviceName": "web", "selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
			"terminationGracePeriodSeconds": int64(0), "containers": []any{map[string]any{"name": "any", "image": "localhost/any"}},
		}},
	}}
}

// toUnstructured is the object of a step in a namespace.
func (s fuzzStep) toUnstructured(ns string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion(s.kind), "kind": s.kind}}
	if s.verb == create {
		u = &unstructured.Unstructured{Object: s.object}
	}
	u.SetName(s.name)
	u.SetNamespace(ns)
	return u
}

func apiVersion(kind string) string {
	switch kind {
	case "ConfigMap":
		return "v1"
	case "Deployment", "StatefulSet":
		return "apps/v1"
	}
	return "swarm.io/v1alpha1"
}

func (s fuzzStep) String() string {
	text, _ := json.Marshal(s.object)
	return fmt.Sprintf("%s %s %s %.2000s%s", s.verb, s.kind, s.name, text, s.policy)
}
