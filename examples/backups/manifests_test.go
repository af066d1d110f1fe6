// Package backups has the manifests of a pool of standing backups, and checks that they match README.md.
package backups

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/internal/testkit/manifests"
)

func TestPoolAndWorkersFitTogether(t *testing.T) {
	pool := manifests.Decode[v1alpha1.WorkerPool](t, "backups.yaml", "WorkerPool")
	workers := manifests.Decode[appsv1.StatefulSet](t, "backups.yaml", "StatefulSet")
	template := workers.Spec.Template
	if pool.Spec.Workers.Kind != "StatefulSet" || pool.Spec.Workers.Name != workers.Name || template.Labels[v1alpha1.LabelPool] != pool.Name {
		t.Errorf("the pool is for %+v, the workers are %s of pool %s", pool.Spec.Workers, workers.Name, template.Labels[v1alpha1.LabelPool])
	}
	if mounted := template.Spec.Volumes[0].ConfigMap.Name; mounted != pool.Spec.Config.Name {
		t.Errorf("the pool writes %s, the workers mount %s", pool.Spec.Config.Name, mounted)
	}
	annotation := template.Spec.Volumes[1].DownwardAPI.Items[0].FieldRef.FieldPath
	if annotation != "metadata.annotations['"+v1alpha1.AnnotationConfigVersion+"']" {
		t.Errorf("the workers mount %s", annotation)
	}
	if asked, served := pool.Spec.Refresh.Acknowledge.HTTPGet.Port, template.Spec.Containers[0].Ports[0].ContainerPort; asked != served {
		t.Errorf("the pool asks port %d, the workers serve %d", asked, served)
	}
	if service := manifests.Decode[corev1.Service](t, "backups.yaml", "Service"); service.Name != workers.Spec.ServiceName {
		t.Errorf("the Service is %s", service.Name)
	}
	budget := manifests.Decode[policyv1.PodDisruptionBudget](t, "backups.yaml", "PodDisruptionBudget")
	if budget.Spec.Selector.MatchLabels["app"] != template.Labels["app"] {
		t.Errorf("the budget is for %v", budget.Spec.Selector)
	}
}

func TestDedicatedBackupsAreAlone(t *testing.T) {
	pool := manifests.Decode[v1alpha1.WorkerPool](t, "backups.yaml", "WorkerPool")
	workers := manifests.Decode[appsv1.StatefulSet](t, "backups.yaml", "StatefulSet")
	shares := planShares(t, pool, *workers.Spec.Replicas)
	want := [][]string{
		{"postgres:catalog"}, {"postgres:accounts", "bucket:invoices"}, {"bucket:images", "bucket:reports", "bucket:audit"},
		{"postgres:billing"}, {"postgres:orders"},
	}
	for n, share := range shares {
		if !slices.Equal(share.Jobs, want[n]) {
			t.Errorf("%s has %q, want %q", share.Worker, share.Jobs, want[n])
		}
	}
}

// planShares is what each worker gets of a new pool.
func planShares(t *testing.T, pool v1alpha1.WorkerPool, replicas int32) []assign.Share {
	t.Helper()
	var jobs []assign.Job
	for _, job := range pool.Spec.Jobs {
		jobs = append(jobs, assign.Job{Name: job.Name, Weight: max(job.Weight, 1), Dedicated: job.QoS == v1alpha1.JobDedicated})
	}
	list, problems := assign.NewJobList(jobs)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var workers []assign.Worker
	for n := range int(replicas) {
		workers = append(workers, assign.Worker{Name: pool.Spec.Workers.Name + "-" + string(rune('0'+n)), Ordinal: n})
	}
	decision := assign.Plan(assign.Input{Jobs: list, Workers: workers})
	if len(decision.Unassigned) > 0 || len(decision.Next.Shares()) != int(replicas) {
		t.Fatalf("unassigned: %v; shares: %v", decision.Unassigned, decision.Next.Shares())
	}
	return decision.Next.Shares()
}

// As the API server does where a namespace asks for restricted pods.
func TestPodsAreRestricted(t *testing.T) {
	pod := manifests.Decode[appsv1.StatefulSet](t, "backups.yaml", "StatefulSet").Spec.Template.Spec
	whole, own := pod.SecurityContext, pod.Containers[0].SecurityContext
	if whole == nil || own == nil || !*whole.RunAsNonRoot || whole.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
		*own.AllowPrivilegeEscalation || own.Capabilities.Drop[0] != "ALL" {
		t.Error("the workers are not restricted")
	}
}
