// Package spread has manifests of workloads on spot and on-demand nodes, and checks that they match README.md.
package spread

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	"github.com/swarm-io/swarm-operator/internal/spread/window"
	"github.com/swarm-io/swarm-operator/internal/testkit/manifests"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

func TestManifestsMatchTheReadme(t *testing.T) {
	web, store := manifests.Decode[appsv1.Deployment](t, "web.yaml", "Deployment"), manifests.Decode[appsv1.StatefulSet](t, "store.yaml",
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
	if service := manifests.Decode[corev1.Service](t, "store.yaml", "Service"); service.Name != store.Spec.ServiceName {
		t.Errorf("the Service is %s", service.Name)
	}
	if budget := manifests.Decode[policyv1.PodDisruptionBudget](t, "web.yaml",
		"PodDisruptionBudget"); budget.Spec.Selector.MatchLabels["app"] != web.Spec.Template.Labels["app"] {
		t.Errorf("the budget is for %v", budget.Spec.Selector)
	}
}

// As the API server does where a namespace asks for restricted pods.
func TestPodsAreRestricted(t *testing.T) {
	web, store := manifests.Decode[appsv1.Deployment](t, "web.yaml", "Deployment"), manifests.Decode[appsv1.StatefulSet](t, "store.yaml",
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
