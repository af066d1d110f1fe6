package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// A base is a valid object. Each case of the tables below is a base with one invalid change.
type base string

const (
	swarm base = `
apiVersion: swarm.io/v1alpha1
kind: Swarm
spec:
  agents:
  - type: coder
    storage: {size: 1Gi}
    runtime: {exec: {command: [/bin/code]}}
    template: {spec: {containers: [{name: agent, image: "example/agent:1"}]}}
`
	agent base = `
apiVersion: swarm.io/v1alpha1
kind: Agent
spec: {swarmRef: {name: research}, type: coder}
`
	task base = `
apiVersion: swarm.io/v1alpha1
kind: Task
spec:
  swarmRef: {name: research}
  payload: {topic: bees, depth: {pages: [1, 2]}}
  items: {count: 10}
`
	pool base = `
apiVersion: swarm.io/v1alpha1
kind: WorkerPool
spec:
  workers: {name: swarm-worker}
  jobs: [{name: "stream:cctv0"}]
`
	snapshot base = `
apiVersion: swarm.io/v1alpha1
kind: SwarmSnapshot
spec: {swarmRef: {name: research}}
`
)

var objectCount atomic.Int64

// object is the base under a fresh name in the namespace of the tests.
func (b base) object() *unstructured.Unstructured {
	object := parse(string(b))
	object.SetNamespace(namespace)
	object.SetName(fmt.Sprintf("t%d-%d", GinkgoParallelProcess(), objectCount.Add(1)))
	return object
}

// withChanges is the base changed at some paths: `spec.topology: ring`, or several in braces. null removes, a number is a
// place in a list.
func (b base) withChanges(changes string) *unstructured.Unstructured {
	object := b.object()
	change(object, changes)
	return object
}

func change(object *unstructured.Unstructured, changes string) {
	var byPath map[string]any
	Expect(yaml.Unmarshal([]byte(changes), &byPath)).To(Succeed(), changes)
	for _, path := range slices.Sorted(maps.Keys(byPath)) {
		object.Object = setPath(object.Object, strings.Split(path, "."), byPath[path]).(map[string]any)
	}
}

// setPath returns node with value at path.
func setPath(node any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	if list, ok := node.([]any); ok {
		place, err := strconv.Atoi(path[0])
		Expect(err).NotTo(HaveOccurred())
		list[place] = setPath(list[place], path[1:], value)
		return list
	}
	object, ok := node.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	child := setPath(object[path[0]], path[1:], value)
	if child == nil {
		delete(object, path[0])
		return object
	}
	object[path[0]] = child
	return object
}

// createObject stores an object and removes it after the test.
func createObject(ctx context.Context, object *unstructured.Unstructured) *unstructured.Unstructured {
	Expect(api.Create(ctx, object, client.FieldValidation("Strict"))).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(api.Delete(ctx, object))).To(Succeed())
	})
	return object
}

// dryRun sends a new object to the API server without storing it.
func dryRun(ctx context.Context, object *unstructured.Unstructured) error {
	return api.Create(ctx, object, client.DryRunAll, client.FieldValidation("Strict"))
}

// writeStatus merges `{status: ...}` into the stored object's status.
func writeStatus(ctx context.Context, object *unstructured.Unstructured, status string) error {
	patch, err := yaml.YAMLToJSON([]byte(status))
	Expect(err).NotTo(HaveOccurred())
	return api.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, patch))
}

// expectRefusal expects a refusal because of the content of the object, not because of its author.
func expectRefusal(err error, sentence string) {
	GinkgoHelper()
	Expect(err).To(MatchError(ContainSubstring(sentence)))
	Expect(apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)).To(BeTrue(), "refused as invalid, not for another cause")
}

// Abbreviations for long values.

func letters(n int) string { return strings.Repeat("a", n) }

// listOf repeats an element, with its number for %d.
func listOf(n int, element string) string {
	var elements []string
	for i := range n {
		elements = append(elements, strings.ReplaceAll(element, "%d", strconv.Itoa(i)))
	}
	return "[" + strings.Join(elements, ", ") + "]"
}
