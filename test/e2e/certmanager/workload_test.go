package certmanager

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// coveredDeployment creates a paused Deployment in the spec's own namespace, and waits until the webhook is called for it.
func coveredDeployment(ctx context.Context) *appsv1.Deployment {
	GinkgoHelper()
	return webhook.CoveredDeployment(ctx, "swarm-e2e-certmanager-")
}

// pods are the pods of the Deployment.
func pods(ctx context.Context, deployment *appsv1.Deployment) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := webhook.API.List(ctx, list, client.InNamespace(deployment.Namespace))
	return list.Items, err
}
