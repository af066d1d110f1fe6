package field

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/harm"
)

const (
	// System is the namespace where `make install` puts the operator.
	System   = "swarm-system"
	operator = "swarm-operator" // its Deployment, its Lease and its program
	selector = "app.kubernetes.io/name=swarm-operator"
)

// Deployment is the operator's.
func (c Cluster) Deployment(ctx context.Context) (*appsv1.Deployment, error) {
	found := &appsv1.Deployment{}
	return found, c.API.Get(ctx, client.ObjectKey{Namespace: System, Name: operator}, found)
}

// Replicas are the operator's pods, including terminating ones.
func (c Cluster) Replicas(ctx context.Context) ([]corev1.Pod, error) {
	deployed, err := c.Deployment(ctx)
	if err != nil {
		return nil, err
	}
	pods := &corev1.PodList{}
	err = c.API.List(ctx, pods, client.InNamespace(System), client.MatchingLabels(deployed.Spec.Selector.MatchLabels))
	return pods.Items, err
}

// Leader is the pod of the operator that leads, "" when none does.
func (c Cluster) Leader(ctx context.Context) string {
	pod, _, _ := strings.Cut(c.Holder(ctx), "_")
	return pod
}

// Holder is the process of the operator that leads, "" when none does.
func (c Cluster) Holder(ctx context.Context) string {
	lease := &coordinationv1.Lease{}
	if err := c.API.Get(ctx, client.ObjectKey{Namespace: System, Name: operator}, lease); err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// AwaitOperator waits until both replicas are ready and one of them leads.
func (c Cluster) AwaitOperator(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		deployed, err := c.Deployment(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(deployed.Status.ObservedGeneration).To(Equal(deployed.Generation))
		g.Expect(deployed.Status.ReadyReplicas).To(BeEquivalentTo(2))
		pods, err := c.Replicas(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pods).To(HaveLen(2), "those of before are gone")
		g.Expect(pods).To(ContainElement(HaveField("Name", c.Leader(ctx))))
	}).WithContext(ctx).Should(Succeed(), "is the operator installed? make install KUBECONFIG=...")
}

// ResizeOperator sets the operator's replicas, two or none, and waits until it has them.
func (c Cluster) ResizeOperator(ctx context.Context, size int) {
	GinkgoHelper()
	deployed, err := c.Deployment(ctx)
	Expect(err).NotTo(HaveOccurred())
	change := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, size)
	Expect(c.API.Patch(ctx, deployed, client.RawPatch(types.MergePatchType, change))).To(Succeed())
	if size > 0 {
		c.AwaitOperator(ctx)
		return
	}
	Eventually(c.Replicas).WithContext(ctx).Should(BeEmpty())
}

// BodyOf is the processes of a pod.
func (c Cluster) BodyOf(ctx context.Context, namespace, pod string) harm.Body {
	GinkgoHelper()
	found := &corev1.Pod{}
	Expect(c.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: pod}, found)).To(Succeed())
	return harm.Of(found)
}

// KillLeader ends the leader's process as the kernel would.
func (c Cluster) KillLeader(ctx context.Context) {
	GinkgoHelper()
	c.BodyOf(ctx, System, c.Leader(ctx)).Kill(operator)
}
