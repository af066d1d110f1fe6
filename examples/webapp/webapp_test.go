package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "github.com/swarm-io/swarm-operator/examples/webapp/v1"
)

func testApp() *v1.WebApp {
	return &v1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: "town", Name: "shop"},
		Spec:       v1.WebAppSpec{Image: "example/shop:1", Replicas: new(int32(2)), Port: 8080},
	}
}

func matchingDeployment() *appsv1.Deployment {
	container := corev1.Container{Image: "example/shop:1", Ports: []corev1.ContainerPort{{ContainerPort: 8080}}}
	return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(2)), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{container}}},
	}}
}

func TestDeploymentIsAppliedWhenItDiffers(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		fits   bool
	}{
		"same":           {func(*appsv1.Deployment) {}, true},
		"another status": {func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 2 }, true},
		"image":          {func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "other" }, false},
		"replicas":       {func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(3)) }, false},
		"port":           {func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Ports = nil }, false},
		"no container":   {func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			found := matchingDeployment()
			test.change(found)
			if fits := isDeploymentCurrent(testApp(), found); fits != test.fits {
				t.Errorf("fits %t, want %t", fits, test.fits)
			}
		})
	}
	if isDeploymentCurrent(testApp(), nil) || isServiceCurrent(testApp(), nil) {
		t.Error("what is not there fits")
	}
}

func TestManifests(t *testing.T) {
	made := deployment(testApp())
	container := made.Spec.Template.Spec.Containers[0]
	if *made.Name != "shop" || *made.Namespace != "town" || *made.Spec.Replicas != 2 || *container.Image != "example/shop:1" ||
		*container.Ports[0].ContainerPort != 8080 {
		t.Errorf("deployment %+v", made)
	}
	if port := service(testApp()).Spec.Ports[0]; *port.Port != 80 || *port.TargetPort != intstr.FromInt32(8080) {
		t.Errorf("port %+v", port)
	}
	if address(testApp()) != "http://shop.town.svc" {
		t.Error(address(testApp()))
	}
}

func TestS32_RegisteredAndUnregistered(t *testing.T) {
	code := http.StatusOK
	var lastRequest string
	registryServer := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		lastRequest = request.Method + " " + request.URL.Path
		answer.WriteHeader(code)
	}))
	defer registryServer.Close()
	r := registry{registryServer.URL}
	if err := r.register(t.Context(), testApp()); err != nil || lastRequest != "PUT /apps/town/shop" {
		t.Errorf("%s: %v", lastRequest, err)
	}
	code = http.StatusNotFound
	if err := r.unregister(t.Context(), testApp()); err != nil || lastRequest != "DELETE /apps/town/shop" {
		t.Errorf("what is gone is gone: %s: %v", lastRequest, err)
	}
	code = http.StatusServiceUnavailable
	if r.unregister(t.Context(), testApp()) == nil || r.register(t.Context(), testApp()) == nil {
		t.Error("a registry that is down was content")
	}
	if err := (registry{}).register(t.Context(), testApp()); err != nil {
		t.Errorf("no registry: %v", err)
	}
}
