package devcluster

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

var _ = Describe("simulated scale", func() {
	const nodes, pods = 200, 2000

	It("runs 2,000 pods on 200 nodes", func(ctx SpecContext) {
		c := newCluster("scale")
		c.up("--simulated-nodes", itoa(nodes))
		client := c.client(first)
		Expect(readyNodes(ctx, client)).To(HaveLen(nodes))
		began := time.Now()
		deploy(ctx, client, pods)
		Eventually(readyReplicas).WithContext(ctx).WithArguments(client).WithTimeout(timeout).WithPolling(500 * time.Millisecond).
			Should(BeEquivalentTo(pods))
		reportDuration("2,000 pods Running on 200 simulated nodes", time.Since(began), time.Minute)
		Expect(client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"})).
			To(HaveField("Items", HaveLen(pods)))
	}, SpecTimeout(2*timeout))
})

func deploy(ctx context.Context, client kubernetes.Interface, replicas int32) {
	GinkgoHelper()
	labels := map[string]string{"app": "many"}
	_, err := client.AppsV1().Deployments(metav1.NamespaceDefault).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "many"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "any", Image: "any"}}},
			},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func readyReplicas(ctx context.Context, client kubernetes.Interface) (int32, error) {
	found, err := client.AppsV1().Deployments(metav1.NamespaceDefault).Get(ctx, "many", metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	return found.Status.ReadyReplicas, nil
}
