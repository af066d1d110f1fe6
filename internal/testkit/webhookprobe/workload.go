package webhookprobe

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// CoveredDeployment creates a paused Deployment in the spec's own namespace, and waits until the webhook is called for it.
func (g Webhook) CoveredDeployment(ctx context.Context, prefix string) *appsv1.Deployment {
	GinkgoHelper()
	made := newSpreadDeployment(g.CreateNamespace(ctx, prefix))
	Expect(g.API.Create(ctx, made)).To(Succeed())
	Eventually(g.AdmitsPlaced).WithContext(ctx).WithArguments(made).Should(BeTrue())
	return made
}

// newSpreadDeployment returns a Deployment that is spread, half of it on spot nodes. Its pods do nothing, and meet the restricted standard.
func newSpreadDeployment(namespace string) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Annotations: map[string]string{
			v1alpha1.SpreadMode.Key(v1alpha1.Prefix): v1alpha1.SpreadEnabled, v1alpha1.SpreadSpotPercentage.Key(v1alpha1.Prefix): "50",
		}},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(4)), Paused: true, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: testcluster.IdlePod()},
		},
	}
}
