package install

import (
	"context"
	"net"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/chaos"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

var _ = Describe("The operator", func() {
	It("[O01/one-command] serves every kind of ours, and one of its replicas leads", func(ctx SpecContext) {
		for _, list := range []client.ObjectList{
			&v1alpha1.SwarmList{}, &v1alpha1.AgentList{}, &v1alpha1.TaskList{}, &v1alpha1.WorkerPoolList{}, &v1alpha1.SwarmSnapshotList{},
		} {
			Expect(api.List(ctx, list)).To(Succeed())
		}
		var names []string
		for _, pod := range replicas(ctx) {
			names = append(names, pod.Name)
		}
		Eventually(cluster.LeaderPod).WithContext(ctx).Should(BeElementOf(names))
	})

	It("[O01/sample-works] brings the sample swarm to work, in a restricted namespace", func(ctx SpecContext) {
		swarm := sample(namespace(ctx))
		Expect(api.Create(ctx, swarm)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(api.Delete(ctx, swarm)).To(Succeed())
			Eventually(api.Get).WithContext(ctx).WithArguments(client.ObjectKeyFromObject(swarm), swarm).Should(Satisfy(apierrors.IsNotFound))
		})

		Eventually(func(g Gomega, ctx context.Context) {
			g.Expect(api.Get(ctx, client.ObjectKeyFromObject(swarm), swarm)).To(Succeed())
			ready := meta.FindStatusCondition(swarm.Status.Conditions, v1alpha1.ConditionReady)
			g.Expect(ready).To(HaveValue(HaveField("Status", metav1.ConditionTrue)))
		}).WithContext(ctx).Should(Succeed())
		Expect(swarm.Status.ActiveAgents).To(Equal(*swarm.Spec.Replicas), "agents that have found the operator by its Service")
	})

	It("[R16/one-process, R16/one-deployment] is one Deployment of one program, and one process of it serves everything",
		func(ctx SpecContext) {
			chaos.SkipOnForeignCluster()
			deployed := &appsv1.DeploymentList{}
			Expect(api.List(ctx, deployed, client.InNamespace(system))).To(Succeed())
			Expect(deployed.Items).To(HaveExactElements(HaveField("Name", "swarm-operator")))
			for _, pod := range replicas(ctx) {
				Expect(chaos.ProcessesOf(&pod).CommandLines()).To(HaveExactElements(HavePrefix("/pause"), HavePrefix("/swarm-operator ")))
				for _, port := range []string{"8080", "8081", "9443", "9444"} {
					connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, port))
					Expect(err).NotTo(HaveOccurred(), "metrics, health, webhook and link of %s", pod.Name)
					Expect(connection.Close()).To(Succeed())
				}
			}
			Expect(filepath.Glob(filepath.Join("..", "..", "..", "cmd", "swarm-operator", "*"))).To(HaveExactElements(HaveSuffix("/main.go")))
		})

	It("[O18] runs in a restricted namespace, and asks for less than it allows", func(ctx SpecContext) {
		own := &corev1.Namespace{}
		Expect(api.Get(ctx, client.ObjectKey{Name: system}, own)).To(Succeed())
		Expect(own.Labels).To(HaveKeyWithValue(testcluster.Restricted, "restricted"))
		Expect(api.Create(ctx, privileged(), client.DryRunAll)).To(Satisfy(apierrors.IsForbidden), "the namespace means it")

		for _, pod := range replicas(ctx) {
			Expect(pod.Spec.SecurityContext.RunAsNonRoot).To(HaveValue(BeTrue()))
			Expect(pod.Spec.SecurityContext.SeccompProfile.Type).To(Equal(corev1.SeccompProfileTypeRuntimeDefault))
			for _, container := range pod.Spec.Containers {
				Expect(container.SecurityContext.AllowPrivilegeEscalation).To(HaveValue(BeFalse()))
				Expect(container.SecurityContext.ReadOnlyRootFilesystem).To(HaveValue(BeTrue()))
				Expect(container.SecurityContext.Capabilities.Drop).To(ConsistOf(corev1.Capability("ALL")))
				Expect(container.SecurityContext.Capabilities.Add).To(BeEmpty())
			}
		}
	})
})

// sample is the Swarm of deploy/samples, unchanged.
func sample(namespace string) *v1alpha1.Swarm {
	GinkgoHelper()
	swarm := &v1alpha1.Swarm{}
	Expect(yaml.UnmarshalStrict(content("deploy", "samples", "swarm.yaml"), swarm)).To(Succeed())
	swarm.Namespace = namespace
	return swarm
}

func privileged() *corev1.Pod {
	container := corev1.Container{Name: "any", Image: "localhost/any", SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "privileged"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{container}},
	}
}
