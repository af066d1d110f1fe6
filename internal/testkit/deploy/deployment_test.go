package deploy

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/swarm-io/swarm-operator/internal/operator"
)

const criticalPriorityClass = "system-cluster-critical"

func TestOperatorOfTheWholeClusterIsCritical(t *testing.T) {
	for home, objects := range installations(t) {
		deployment := findObject[appsv1.Deployment](t, objects, "Deployment", "swarm-operator")
		if class := deployment.Spec.Template.Spec.PriorityClassName; class != criticalPriorityClass {
			t.Errorf("%s: the priority class is %q", home, class)
		}
		quota := findObject[corev1.ResourceQuota](t, objects, "ResourceQuota", "swarm-operator-critical-pods")
		scopes := quota.Spec.ScopeSelector.MatchExpressions
		if quota.Namespace != home || len(scopes) != 1 || len(scopes[0].Values) != 1 || scopes[0].Values[0] != criticalPriorityClass {
			t.Errorf("%s: the quota is %s/%+v", home, quota.Namespace, scopes)
		}
		surge := deployment.Spec.Strategy.RollingUpdate.MaxSurge.IntValue()
		if pods := quota.Spec.Hard[corev1.ResourcePods]; pods.Value() < int64(int(*deployment.Spec.Replicas)+surge) {
			t.Errorf("%s: the quota of %s pods is too small for a rollout", home, pods.String())
		}
	}
}

// A tenant must not push away what others run, and may not create quotas.
func TestOperatorOfOneNamespaceHasNoPriority(t *testing.T) {
	for _, namespace := range []string{"team-a", "elsewhere"} {
		deployment := objectsOfKind[appsv1.Deployment](t, tenantInstallations(t)[namespace], "Deployment")[0]
		if class := deployment.Spec.Template.Spec.PriorityClassName; class != "" {
			t.Errorf("%s: the priority class is %q", namespace, class)
		}
	}
}

func TestOperatorRunsOnLinux(t *testing.T) {
	deployments := []appsv1.Deployment{objectsOfKind[appsv1.Deployment](t, tenantInstallations(t)["team-a"], "Deployment")[0]}
	for _, objects := range installations(t) {
		deployments = append(deployments, findObject[appsv1.Deployment](t, objects, "Deployment", "swarm-operator"))
	}
	for _, deployment := range deployments {
		if system := deployment.Spec.Template.Spec.NodeSelector[corev1.LabelOSStable]; system != "linux" {
			t.Errorf("%s: runs on %q", deployment.Namespace, system)
		}
	}
}

// The kubelet ends no process that would have ended by itself and logged the reason: docs/how-to/install.md, Health.
func TestStartupProbeOutlastsTheStart(t *testing.T) {
	const apiServer = 30 * time.Second
	probe := devObject[appsv1.Deployment](t, "Deployment", "swarm-operator").Spec.Template.Spec.Containers[0].StartupProbe
	lasts := time.Duration(probe.PeriodSeconds*probe.FailureThreshold) * time.Second
	if start := apiServer + operator.Defaults().Controller.CacheSyncTimeout.Duration; lasts <= start {
		t.Errorf("the startup probe gives up after %s, and the process after %s", lasts, start)
	}
	if path := probe.HTTPGet.Path; path != "/healthz" {
		t.Errorf("it waits for %s", path)
	}
}
