package main

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/manifests"
)

func TestPoolAndWorkersFitTogether(t *testing.T) {
	pool := manifests.Decode[v1alpha1.WorkerPool](t, "streams.yaml", "WorkerPool")
	workers := manifests.Decode[appsv1.StatefulSet](t, "streams.yaml", "StatefulSet")
	spec := workers.Spec.Template.Spec
	if pool.Spec.Workers.Name != workers.Name || spec.Volumes[0].ConfigMap.Name != pool.Spec.Config.Name {
		t.Errorf("the pool is for %s by %s, the workers are %s and mount %s",
			pool.Spec.Workers.Name, pool.Spec.Config.Name, workers.Name, spec.Volumes[0].ConfigMap.Name)
	}
	annotation := spec.Volumes[1].DownwardAPI.Items[0].FieldRef.FieldPath
	if annotation != "metadata.annotations['"+v1alpha1.AnnotationConfigVersion+"']" {
		t.Errorf("the workers mount %s", annotation)
	}
	served := manifests.Decode[appsv1.Deployment](t, "streams.yaml", "Deployment").Spec.Template.Spec.Containers[0]
	if want := []string{"serve"}; !slices.Equal(served.Args, want) || served.Image != "localhost/swarm-streams:dev" ||
		spec.Containers[0].Image != served.Image {
		t.Errorf("images %s and %s, arguments %q", served.Image, spec.Containers[0].Image, served.Args)
	}
}
