package deploy

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// buildInstallations builds the installations for a whole cluster, by the namespace of the operator.
var buildInstallations = sync.OnceValues(func() (map[string][]*unstructured.Unstructured, error) {
	root := filepath.Join("..", "..", "..", "deploy", "kustomize")
	all := map[string][]*unstructured.Unstructured{}
	for namespace, folder := range map[string]string{
		"swarm-system": root, "swarm": filepath.Join(root, "envs", "dev"), "elsewhere": filepath.Join("testdata", "monitoring"),
	} {
		objects, err := buildCached(folder)
		if err != nil {
			return nil, err
		}
		all[namespace] = objects
	}
	return all, nil
})

func installations(t *testing.T) map[string][]*unstructured.Unstructured {
	t.Helper()
	all, err := buildInstallations()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// findObject returns the object of a kind and name.
func findObject[T any](t *testing.T, objects []*unstructured.Unstructured, kind, name string) T {
	t.Helper()
	some := slices.DeleteFunc(slices.Clone(objects), func(object *unstructured.Unstructured) bool { return object.GetName() != name })
	found := objectsOfKind[T](t, some, kind)
	if len(found) != 1 {
		t.Fatalf("%d of %s %q", len(found), kind, name)
	}
	return found[0]
}
