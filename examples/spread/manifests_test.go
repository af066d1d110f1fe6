// Package spread has manifests of workloads on spot and on-demand nodes, and checks that they match README.md.
package spread

import (
	"bytes"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	"github.com/swarm-io/swarm-operator/internal/spread/window"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

// decodeDocument is the object of a kind in a file.
func decodeDocument[T any](t *testing.T, file, kind string) (object T) {
	t.Helper()
	content, err := os.ReadFile(file)
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
	t.Fatalf("no %s in %s", kind, file)
	return object
}

func TestManifestsMatchTheReadme(t *testing.T) {
	web, store := decodeDocument[appsv1.Deployment](t, "web.yaml", "Deployment"), decodeDocument[appsv1.StatefulSet](t, "store.yaml",
		"StatefulSet")
	for _, c := range []struct {
		workload workload.Workload
		want     string
	}{{workload.Deployment(&web), "on-demand:4,spot:6"}, {workload.StatefulSet(&store), "on-demand:3,spot:2"}} {
		policy := snapshot.DefaultSettings().Spec(c.workload)
		if policy.Policy == nil || policy.Problem != "" || split.DesiredDistribution(*policy.Policy, c.workload.Replicas).String() != c.want {
			t.Errorf("%s: %+v", c.workload.Key, policy)
		}
		if _, err := window.Parse(policy.Windows); err != nil {
			t.Errorf("%s: %v", c.workload.Key, err)
		}
	}
	if service := decodeDocument[corev1.Service](t, "store.yaml", "Service"); service.Name != store.Spec.ServiceName {
		t.Errorf("the Service is %s", service.Name)
	}
	if budget := decodeDocument[policyv1.PodDisruptionBudget](t, "web.yaml",
		"PodDisruptionBudget"); budget.Spec.Selector.MatchLabels["app"] != web.Spec.Template.Labels["app"] {
		t.Errorf("the budget is for %v", budget.Spec.Selector)
	}
}

// As the API server does where a namespace asks for restricted pods.
func TestPodsAreRestricted(t *testing.T) {
	web, store := decodeDocument[appsv1.Deployment](t, "web.yaml", "Deployment"), decodeDocument[appsv1.StatefulSet](t, "store.yaml",
		"StatefulSet")
	for _, pod := range []corev1.PodSpec{web.Spec.Template.Spec, store.Spec.Template.Spec} {
		container := pod.Containers[0]
		whole, own := pod.SecurityContext, container.SecurityContext
		if whole == nil || own == nil || !*whole.RunAsNonRoot || whole.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
			*own.AllowPrivilegeEscalation || own.Capabilities.Drop[0] != "ALL" {
			t.Errorf("%s is not restricted", container.Name)
		}
	}
}
