package main

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	v1 "github.com/swarm-io/swarm-operator/examples/webapp/v1"
)

func labels(app *v1.WebApp) map[string]string { return map[string]string{"app": app.Name} }

func address(app *v1.WebApp) string { return fmt.Sprintf("http://%s.%s.svc", app.Name, app.Namespace) }

func replicas(app *v1.WebApp) int32 {
	if app.Spec.Replicas == nil {
		return 1
	}
	return *app.Spec.Replicas
}

func deployment(app *v1.WebApp) *appsv1ac.DeploymentApplyConfiguration {
	container := corev1ac.Container().WithName("app").WithImage(app.Spec.Image).
		WithPorts(corev1ac.ContainerPort().WithContainerPort(app.Spec.Port))
	return appsv1ac.Deployment(app.Name, app.Namespace).WithLabels(labels(app)).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(replicas(app)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels(app))).
			WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels(app)).
				WithSpec(corev1ac.PodSpec().WithContainers(container))))
}

func service(app *v1.WebApp) *corev1ac.ServiceApplyConfiguration {
	port := corev1ac.ServicePort().WithPort(80).WithTargetPort(targetPort(app))
	return corev1ac.Service(app.Name, app.Namespace).WithLabels(labels(app)).
		WithSpec(corev1ac.ServiceSpec().WithSelector(labels(app)).WithPorts(port))
}

// isDeploymentCurrent reports whether the Deployment is the one we would apply.
func isDeploymentCurrent(app *v1.WebApp, current *appsv1.Deployment) bool {
	if current == nil || current.Spec.Replicas == nil || *current.Spec.Replicas != replicas(app) ||
		len(current.Spec.Template.Spec.Containers) == 0 {
		return false
	}
	container := current.Spec.Template.Spec.Containers[0]
	return container.Image == app.Spec.Image && len(container.Ports) == 1 && container.Ports[0].ContainerPort == app.Spec.Port
}

// isServiceCurrent reports whether the Service is the one we would apply.
func isServiceCurrent(app *v1.WebApp, current *corev1.Service) bool {
	return current != nil && len(current.Spec.Ports) == 1 && current.Spec.Ports[0].TargetPort == targetPort(app)
}

func targetPort(app *v1.WebApp) intstr.IntOrString { return intstr.FromInt32(app.Spec.Port) }
