package certmanager

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// coveredDeployment is a Deployment in a namespace of the spec's own, which the API server asks about already. It is paused.
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
