package testcluster

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func fakeCluster(objects ...client.Object) Cluster {
	return Cluster{API: fake.NewClientBuilder().WithObjects(objects...).Build()}
}

func TestLeaderIsAPod(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: SystemNamespace, Name: operatorName}
	for reason, c := range map[string]struct {
		cluster Cluster
		leader  string
	}{
		"no Lease": {fakeCluster(), ""},
		"released": {fakeCluster(&coordinationv1.Lease{ObjectMeta: meta}), ""},
		"held": {fakeCluster(&coordinationv1.Lease{ObjectMeta: meta,
			Spec: coordinationv1.LeaseSpec{HolderIdentity: new("swarm-operator-7d-x_2b")}}), "swarm-operator-7d-x"},
	} {
		if got := c.cluster.LeaderPod(t.Context()); got != c.leader {
			t.Errorf("%s: got %q", reason, got)
		}
	}
}

func TestReplicasAreThoseOfTheDeployment(t *testing.T) {
	owned := map[string]string{"app.kubernetes.io/name": operatorName}
	pod := func(namespace, name string, labels map[string]string) client.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	}
	cluster := fakeCluster(
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: SystemNamespace, Name: operatorName},
			Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: owned}}},
		pod(SystemNamespace, "one", owned), pod(SystemNamespace, "another", nil), pod("elsewhere", "one", owned),
	)
	if pods, err := cluster.OperatorPods(t.Context()); err != nil || len(pods) != 1 || pods[0].Name != "one" {
		t.Errorf("got %v, %v", pods, err)
	}
	if pods, err := fakeCluster().OperatorPods(t.Context()); err == nil {
		t.Errorf("got %v where nothing is installed", pods)
	}
}
