package deploy

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/swarm-io/swarm-operator/internal/certs"
	"github.com/swarm-io/swarm-operator/internal/controller/webhookconfig"
)

// monitoringObjects are the objects of a kind in an installation with the component.
func monitoringObjects(t *testing.T, kind string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := buildCached(filepath.Join("testdata", "monitoring"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool { return object.GetKind() != kind })
}

// selectedService is the one Service that the ServiceMonitor chooses.
func selectedService(t *testing.T, selector labels.Selector) corev1.Service {
	t.Helper()
	services := slices.DeleteFunc(monitoringObjects(t, "Service"), func(object *unstructured.Unstructured) bool {
		return !selector.Matches(labels.Set(object.GetLabels()))
	})
	if len(services) != 1 {
		t.Fatalf("%q chooses %d Services", selector, len(services))
	}
	var service corev1.Service
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(services[0].Object, &service); err != nil {
		t.Fatal(err)
	}
	return service
}

func TestMonitoringScrapesTheOperator(t *testing.T) {
	monitors := monitoringObjects(t, "ServiceMonitor")
	if len(monitors) != 1 || monitors[0].GetNamespace() != "elsewhere" || monitors[0].GetLabels()["release"] != "prometheus" {
		t.Fatalf("got %v", monitors)
	}
	chosen, _, _ := unstructured.NestedStringMap(monitors[0].Object, "spec", "selector", "matchLabels")
	service := selectedService(t, labels.SelectorFromSet(chosen))
	endpoints, _, _ := unstructured.NestedSlice(monitors[0].Object, "spec", "endpoints")
	endpoint := endpoints[0].(map[string]any)
	port := service.Spec.Ports[0]
	if service.Namespace != "elsewhere" || endpoint["port"] != port.Name || endpoint["scheme"] != *port.AppProtocol {
		t.Errorf("scrapes %v, the Service has %+v", endpoint, port)
	}
}

// The names are those of what the operator shows and publishes, and of what the component makes: in any namespace.
func TestMonitoringVerifiesTheOperatorWithAMetricsToken(t *testing.T) {
	var endpoint struct {
		BearerTokenFile string
		Authorization   struct{ Credentials corev1.SecretKeySelector }
		TLSConfig       struct {
			CA                 struct{ ConfigMap corev1.ConfigMapKeySelector }
			ServerName         string
			InsecureSkipVerify bool
		}
	}
	endpoints, _, _ := unstructured.NestedSlice(monitoringObjects(t, "ServiceMonitor")[0].Object, "spec", "endpoints")
	text, err := json.Marshal(endpoints[0])
	if err == nil {
		err = json.Unmarshal(text, &endpoint)
	}
	if err != nil {
		t.Fatal(err)
	}
	tls := endpoint.TLSConfig
	bundle := tls.CA.ConfigMap
	if tls.InsecureSkipVerify || tls.ServerName != "swarm-operator-metrics.elsewhere.svc" || bundle.Name != certs.ConfigMapName ||
		bundle.Key != "ca.crt" {
		t.Errorf("verifies by %+v", tls)
	}
	credentials := endpoint.Authorization.Credentials
	secret := objectsOfKind[corev1.Secret](t, monitoringObjects(t, "Secret"), "Secret")[0]
	ofSecret := credentials.Key == corev1.ServiceAccountTokenKey && credentials.Name == secret.Name && secret.Namespace == "elsewhere"
	if endpoint.BearerTokenFile != "" || !ofSecret {
		t.Errorf("shows %q, %+v", endpoint.BearerTokenFile, credentials)
	}
	expectMetricsRightOnly(t, secret.Annotations[corev1.ServiceAccountNameKey])
}

// expectMetricsRightOnly wants an account to have the right to metrics and no other.
func expectMetricsRightOnly(t *testing.T, account string) {
	t.Helper()
	var roles []string
	for _, binding := range objectsOfKind[rbacv1.ClusterRoleBinding](t, monitoringObjects(t, "ClusterRoleBinding"), "ClusterRoleBinding") {
		for _, subject := range binding.Subjects {
			if subject.Name == account && subject.Namespace == "elsewhere" {
				roles = append(roles, binding.RoleRef.Name)
			}
		}
	}
	if !slices.Equal(roles, []string{"swarm-metrics-reader"}) {
		t.Errorf("%s is bound to %q", account, roles)
	}
}

// Names in the alerts are names of objects, which can be renamed.
func TestAlertsNameInstalledObjects(t *testing.T) {
	alerts := monitoringObjects(t, "PrometheusRule")
	if len(alerts) != 1 || alerts[0].GetNamespace() != "elsewhere" || alerts[0].GetLabels()["release"] != "prometheus" {
		t.Fatalf("got %v", alerts)
	}
	text := string(readFile(t, "deploy", "kustomize", "components", "monitoring", "rules.yaml"))
	installedMatchers := []string{`job="swarm-operator-metrics"`, `name="swarm-operator"`, `name="pods.swarm.io"`,
		`name="` + webhookconfig.SpreadWebhook + `"`}
	for _, said := range regexp.MustCompile(`\b(job|name)="[^"]*"`).FindAllString(text, -1) {
		if !slices.Contains(installedMatchers, said) {
			t.Errorf("an alert goes by %s", said)
		}
	}
	for _, name := range installedMatchers {
		if !strings.Contains(text, name) {
			t.Errorf("no alert goes by %s", name)
		}
	}
	if service := selectedService(t,
		labels.SelectorFromSet(labels.Set{"app.kubernetes.io/component": "metrics"})); installedMatchers[0] != `job="`+service.Name+`"` {
		t.Errorf("the job is named after the Service %s", service.Name)
	}
}
