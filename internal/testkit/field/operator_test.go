package field

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func clusterOf(objects ...client.Object) Cluster {
	return Cluster{API: fake.NewClientBuilder().WithObjects(objects...).Build()}
}

func TestLeaderIsAPod(t *testing.T) {
	named := metav1.ObjectMeta{Namespace: System, Name: operator}
	for reason, c := range map[string]struct {
		cluster Cluster
		leader  string
	}{
		"no Lease": {clusterOf(), ""},
		"released": {clusterOf(&coordinationv1.Lease{ObjectMeta: named}), ""},
		"held":     {clusterOf(&coordinationv1.Lease{ObjectMeta: named, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("swarm-operator-7d-x_2b")}}), "swarm-operator-7d-x"},
	} {
		if got := c.cluster.Leader(t.Context()); got != c.leader {
			t.Errorf("%s: got %q", reason, got)
		}
	}
}

func TestReplicasAreThoseOfTheDeployment(t *testing.T) {
	own := map[string]string{"app.kubernetes.io/name": operator}
	pod := func(namespace, name string, labels map[string]string) client.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	}
	cluster := clusterOf(
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: System, Name: operator}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: own}}},
		pod(System, "one", own), pod(System, "another", nil), pod("elsewhere", "one", own),
	)
	if pods, err := cluster.Replicas(t.Context()); err != nil || len(pods) != 1 || pods[0].Name != "one" {
		t.Errorf("got %v, %v", pods, err)
	}
	if pods, err := clusterOf().Replicas(t.Context()); err == nil {
		t.Errorf("got %v where nothing is installed", pods)
	}
}
