package deploy

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/swarm-io/swarm-operator/internal/operator"
)

// The operator refuses to start on a configuration that it does not understand, so the one that is installed must be good.
func TestInstalledConfigurationIsValid(t *testing.T) {
	config, err := operator.Load(filepath.Join("..", "..", "..", "deploy", "kustomize", "operator", "config.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(readFile(t, "deploy", "kustomize", "workload", "deployment.yaml"), &deployment); err != nil {
		t.Fatal(err)
	}
	ports := map[string]int{}
	for _, port := range deployment.Spec.Template.Spec.Containers[0].Ports {
		ports[port.Name] = int(port.ContainerPort)
	}
	if want := map[string]int{"link": config.Link.Port, "metrics": config.Metrics.Port, "health": config.Health.Port,
		"webhook": config.Webhook.Port}; !maps.Equal(ports, want) {
		t.Errorf("the Deployment has ports %v, the configuration %v", ports, want)
	}
}

// The suites have not run on kind yet. When they have, remove both this test and the sentence, and record it in docs/acceptance.md.
func TestR19_KindMarkedAsUnproven(t *testing.T) {
	if text := string(readFile(t, "docs", "how-to", "install.md")); !strings.Contains(text, "**kind is unproven**") {
		t.Error("docs/how-to/install.md does not say that kind is unproven")
	}
}
