package main

import (
	"bytes"
	"os"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// decodeDocument is the object of a kind in streams.yaml.
func decodeDocument[T any](t *testing.T, kind string) (object T) {
	t.Helper()
	content, err := os.ReadFile("streams.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for text := range bytes.SplitSeq(content, []byte("\n---\n")) {
		if bytes.Contains(text, []byte("\nkind: "+kind+"\n")) {
			if err := yaml.UnmarshalStrict(text, &object); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			return object
		}
	}
	t.Fatalf("no %s", kind)
	return object
}

func TestPoolAndWorkersFitTogether(t *testing.T) {
	pool, workers := decodeDocument[v1alpha1.WorkerPool](t, "WorkerPool"), decodeDocument[appsv1.StatefulSet](t, "StatefulSet")
	spec := workers.Spec.Template.Spec
	if pool.Spec.Workers.Name != workers.Name || spec.Volumes[0].ConfigMap.Name != pool.Spec.Config.Name {
		t.Errorf("the pool is for %s by %s, the workers are %s and mount %s",
			pool.Spec.Workers.Name, pool.Spec.Config.Name, workers.Name, spec.Volumes[0].ConfigMap.Name)
	}
	annotation := spec.Volumes[1].DownwardAPI.Items[0].FieldRef.FieldPath
	if annotation != "metadata.annotations['"+v1alpha1.AnnotationConfigVersion+"']" {
		t.Errorf("the workers mount %s", annotation)
	}
	served := decodeDocument[appsv1.Deployment](t, "Deployment").Spec.Template.Spec.Containers[0]
	if want := []string{"serve"}; !slices.Equal(served.Args, want) || served.Image != "localhost/swarm-streams:dev" ||
		spec.Containers[0].Image != served.Image {
		t.Errorf("images %s and %s, arguments %q", served.Image, spec.Containers[0].Image, served.Args)
	}
}
