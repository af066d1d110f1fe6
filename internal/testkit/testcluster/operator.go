package testcluster

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

	"github.com/swarm-io/swarm-operator/internal/testkit/chaos"
)

const (
	// SystemNamespace is the namespace into which `make install` installs the operator.
	SystemNamespace  = "swarm-system"
	operatorName     = "swarm-operator" // the name of its Deployment, its Lease and its program
	operatorSelector = "app.kubernetes.io/name=swarm-operator"
)

// OperatorDeployment returns the Deployment of the operator.
func (c Cluster) OperatorDeployment(ctx context.Context) (*appsv1.Deployment, error) {
	found := &appsv1.Deployment{}
	return found, c.API.Get(ctx, client.ObjectKey{Namespace: SystemNamespace, Name: operatorName}, found)
}

// OperatorPods returns the pods of the operator, including terminating ones.
func (c Cluster) OperatorPods(ctx context.Context) ([]corev1.Pod, error) {
	deployment, err := c.OperatorDeployment(ctx)
	if err != nil {
		return nil, err
	}
	pods := &corev1.PodList{}
	err = c.API.List(ctx, pods, client.InNamespace(SystemNamespace), client.MatchingLabels(deployment.Spec.Selector.MatchLabels))
	return pods.Items, err
}

// LeaderPod returns the pod of the operator that leads, "" if none does.
func (c Cluster) LeaderPod(ctx context.Context) string {
	pod, _, _ := strings.Cut(c.LeaseHolder(ctx), "_")
	return pod
}

// LeaseHolder returns the process of the operator that leads, "" if none does.
func (c Cluster) LeaseHolder(ctx context.Context) string {
	lease := &coordinationv1.Lease{}
	if err := c.API.Get(ctx, client.ObjectKey{Namespace: SystemNamespace, Name: operatorName}, lease); err != nil ||
		lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// AwaitOperator waits until both replicas are ready and one of them leads.
func (c Cluster) AwaitOperator(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		deployed, err := c.OperatorDeployment(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(deployed.Status.ObservedGeneration).To(Equal(deployed.Generation))
		g.Expect(deployed.Status.ReadyReplicas).To(BeEquivalentTo(2))
		pods, err := c.OperatorPods(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pods).To(HaveLen(2), "those of before are gone")
		g.Expect(pods).To(ContainElement(HaveField("Name", c.LeaderPod(ctx))))
	}).WithContext(ctx).Should(Succeed(), "is the operator installed? make install KUBECONFIG=...")
}

// ScaleOperator scales the operator to two replicas or none, and waits until it has them.
func (c Cluster) ScaleOperator(ctx context.Context, size int) {
	GinkgoHelper()
	deployed, err := c.OperatorDeployment(ctx)
	Expect(err).NotTo(HaveOccurred())
	change := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, size)
	Expect(c.API.Patch(ctx, deployed, client.RawPatch(types.MergePatchType, change))).To(Succeed())
	if size > 0 {
		c.AwaitOperator(ctx)
		return
	}
	Eventually(c.OperatorPods).WithContext(ctx).Should(BeEmpty())
}

// PodProcesses returns the processes of a pod.
func (c Cluster) PodProcesses(ctx context.Context, namespace, pod string) chaos.PodProcesses {
	GinkgoHelper()
	found := &corev1.Pod{}
	Expect(c.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: pod}, found)).To(Succeed())
	return chaos.ProcessesOf(found)
}

// KillLeader kills the process of the leader, as the kernel would.
func (c Cluster) KillLeader(ctx context.Context) {
	GinkgoHelper()
	c.PodProcesses(ctx, SystemNamespace, c.LeaderPod(ctx)).Kill(operatorName)
}
