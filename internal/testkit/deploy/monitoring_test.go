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

	"github.com/swarm-io/swarm-operator/internal/admission"
	"github.com/swarm-io/swarm-operator/internal/authority"
)

// monitored are the objects of a kind in an installation with the component.
func monitored(t *testing.T, kind string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := kustomized(filepath.Join("testdata", "monitoring"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool { return object.GetKind() != kind })
}

// scraped is the one Service that the ServiceMonitor chooses.
func scraped(t *testing.T, by labels.Selector) corev1.Service {
	t.Helper()
	services := slices.DeleteFunc(monitored(t, "Service"), func(object *unstructured.Unstructured) bool {
		return !by.Matches(labels.Set(object.GetLabels()))
	})
	if len(services) != 1 {
		t.Fatalf("%q chooses %d Services", by, len(services))
	}
	var service corev1.Service
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(services[0].Object, &service); err != nil {
		t.Fatal(err)
	}
	return service
}

func TestTheComponentScrapesTheOperator(t *testing.T) {
	monitors := monitored(t, "ServiceMonitor")
	if len(monitors) != 1 || monitors[0].GetNamespace() != "elsewhere" || monitors[0].GetLabels()["release"] != "prometheus" {
		t.Fatalf("got %v", monitors)
	}
	chosen, _, _ := unstructured.NestedStringMap(monitors[0].Object, "spec", "selector", "matchLabels")
	service := scraped(t, labels.SelectorFromSet(chosen))
	endpoints, _, _ := unstructured.NestedSlice(monitors[0].Object, "spec", "endpoints")
	endpoint := endpoints[0].(map[string]any)
	port := service.Spec.Ports[0]
	if service.Namespace != "elsewhere" || endpoint["port"] != port.Name || endpoint["scheme"] != *port.AppProtocol {
		t.Errorf("scrapes %v, the Service has %+v", endpoint, port)
	}
}

// The names are those of what the operator shows and publishes, and of what the component makes: in any namespace.
func TestTheComponentVerifiesTheOperatorAndShowsATokenForMetricsOnly(t *testing.T) {
	var endpoint struct {
		BearerTokenFile string
		Authorization   struct{ Credentials corev1.SecretKeySelector }
		TLSConfig       struct {
			CA                 struct{ ConfigMap corev1.ConfigMapKeySelector }
			ServerName         string
			InsecureSkipVerify bool
		}
	}
	endpoints, _, _ := unstructured.NestedSlice(monitored(t, "ServiceMonitor")[0].Object, "spec", "endpoints")
	text, err := json.Marshal(endpoints[0])
	if err == nil {
		err = json.Unmarshal(text, &endpoint)
	}
	if err != nil {
		t.Fatal(err)
	}
	tls := endpoint.TLSConfig
	bundle := tls.CA.ConfigMap
	if tls.InsecureSkipVerify || tls.ServerName != "swarm-operator-metrics.elsewhere.svc" || bundle.Name != authority.ConfigMapName || bundle.Key != "ca.crt" {
		t.Errorf("verifies by %+v", tls)
	}
	credentials := endpoint.Authorization.Credentials
	secret := typed[corev1.Secret](t, monitored(t, "Secret"), "Secret")[0]
	ofSecret := credentials.Key == corev1.ServiceAccountTokenKey && credentials.Name == secret.Name && secret.Namespace == "elsewhere"
	if endpoint.BearerTokenFile != "" || !ofSecret {
		t.Errorf("shows %q, %+v", endpoint.BearerTokenFile, credentials)
	}
	expectReaderOfMetrics(t, secret.Annotations[corev1.ServiceAccountNameKey])
}

// expectReaderOfMetrics wants an account to have the right to metrics and no other.
func expectReaderOfMetrics(t *testing.T, account string) {
	t.Helper()
	var roles []string
	for _, binding := range typed[rbacv1.ClusterRoleBinding](t, monitored(t, "ClusterRoleBinding"), "ClusterRoleBinding") {
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
func TestTheAlertsNameWhatIsInstalled(t *testing.T) {
	alerts := monitored(t, "PrometheusRule")
	if len(alerts) != 1 || alerts[0].GetNamespace() != "elsewhere" || alerts[0].GetLabels()["release"] != "prometheus" {
		t.Fatalf("got %v", alerts)
	}
	text := string(content(t, "deploy", "kustomize", "components", "monitoring", "rules.yaml"))
	known := []string{`job="swarm-operator-metrics"`, `name="swarm-operator"`, `name="pods.swarm.io"`, `name="` + admission.SpreadWebhook + `"`}
	for _, said := range regexp.MustCompile(`\b(job|name)="[^"]*"`).FindAllString(text, -1) {
		if !slices.Contains(known, said) {
			t.Errorf("an alert goes by %s", said)
		}
	}
	for _, name := range known {
		if !strings.Contains(text, name) {
			t.Errorf("no alert goes by %s", name)
		}
	}
	if service := scraped(t, labels.SelectorFromSet(labels.Set{"app.kubernetes.io/component": "metrics"})); known[0] != `job="`+service.Name+`"` {
		t.Errorf("the job is named after the Service %s", service.Name)
	}
}
