package spread

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/harm"
)

// system is where the operator lives.
const system = "swarm-system"

// awaitOperator waits until both replicas are ready and one of them leads.
func awaitOperator(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		deployed := &appsv1.Deployment{}
		g.Expect(api.Get(ctx, client.ObjectKey{Namespace: system, Name: "swarm-operator"}, deployed)).To(Succeed())
		g.Expect(deployed.Status.ObservedGeneration).To(Equal(deployed.Generation))
		g.Expect(deployed.Status.ReadyReplicas).To(BeEquivalentTo(2))
		pods, err := replicas(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pods).To(HaveLen(2), "those of before are gone")
		g.Expect(pods).To(ContainElement(HaveField("Name", leader(ctx))))
	}).WithContext(ctx).Should(Succeed(), "is the operator installed? make install KUBECONFIG=...")
}

// replicas are the operator's pods.
func replicas(ctx context.Context) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := api.List(ctx, pods, client.InNamespace(system), client.MatchingLabels{"app.kubernetes.io/name": "swarm-operator", "app.kubernetes.io/component": "operator"})
	return pods.Items, err
}

// leader is the pod of the operator that leads, "" when nobody does.
func leader(ctx context.Context) string {
	lease := &coordinationv1.Lease{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: system, Name: "swarm-operator"}, lease); err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return name
}

// killLeader ends the leader's process as the kernel would.
func killLeader(ctx context.Context) {
	GinkgoHelper()
	found := &corev1.Pod{}
	Expect(api.Get(ctx, client.ObjectKey{Namespace: system, Name: leader(ctx)}, found)).To(Succeed())
	harm.Of(found).Kill("swarm-operator")
}

// resizeOperator gives the operator so many replicas and waits until it has them.
func resizeOperator(ctx context.Context, size int32) {
	GinkgoHelper()
	deployed := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "swarm-operator"}}
	patch(ctx, deployed, map[string]any{"spec": map[string]any{"replicas": size}})
	if size > 0 {
		awaitOperator(ctx)
		return
	}
	Eventually(replicas).WithContext(ctx).Should(BeEmpty())
}
