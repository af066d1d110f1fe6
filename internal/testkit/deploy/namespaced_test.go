package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/swarm-io/swarm-operator/internal/operator"
)

// tenantInstallations returns what the admin of a namespace applies, by that namespace.
func tenantInstallations(t *testing.T) map[string][]*unstructured.Unstructured {
	t.Helper()
	installations := map[string][]*unstructured.Unstructured{}
	for namespace, folder := range map[string]string{
		"team-a":      filepath.Join("..", "..", "..", "deploy", "kustomize", "envs", "namespaced"),
		"elsewhere":   filepath.Join("testdata", "tenant"),
		"team-a-jobs": filepath.Join("testdata", "namespaced"),
	} {
		objects, err := buildCached(folder)
		if err != nil {
			t.Fatal(err)
		}
		installations[namespace] = objects
	}
	return installations
}

// objectsOfKind are the objects of a kind.
func objectsOfKind[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) (result []T) {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() != kind {
			continue
		}
		var one T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &one, true); err != nil {
			t.Fatal(err)
		}
		result = append(result, one)
	}
	return result
}

func TestTenantsApplyNothingOfTheCluster(t *testing.T) {
	namespaced := []string{"ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Role", "RoleBinding", "Service",
		"ServiceAccount"}
	for namespace, objects := range tenantInstallations(t) {
		for _, object := range objects {
			if !slices.Contains(namespaced, object.GetKind()) || object.GetNamespace() != namespace {
				t.Errorf("%s %q is in namespace %q, want %q", object.GetKind(), object.GetName(), object.GetNamespace(), namespace)
			}
		}
	}
}

// A binding that names the service account of another namespace would give that one's owner the tenant's namespace.
func TestTenantsBindTheirOwnOperator(t *testing.T) {
	namespacesByOperator := map[string]string{"team-a": "team-a", "elsewhere": "elsewhere", "team-a-jobs": "team-a"}
	for namespace, objects := range tenantInstallations(t) {
		bindings := objectsOfKind[rbacv1.RoleBinding](t, objects, "RoleBinding")
		if len(bindings) == 0 {
			t.Errorf("%s: nothing is bound", namespace)
		}
		for _, binding := range bindings {
			if who := binding.Subjects; len(who) != 1 || who[0].Kind != "ServiceAccount" || who[0].Name != "swarm-operator" ||
				who[0].Namespace != namespacesByOperator[namespace] {
				t.Errorf("%s: %s is for %+v", namespace, binding.Name, who)
			}
			if binding.RoleRef.Kind != "Role" || binding.RoleRef.Name != binding.Name {
				t.Errorf("%s: %s binds %+v", namespace, binding.Name, binding.RoleRef)
			}
		}
	}
}

// The configuration is understood together with what the Deployment sets in the environment.
func TestTenantConfigurationIsValid(t *testing.T) {
	objects := tenantInstallations(t)["elsewhere"]
	container := objectsOfKind[appsv1.Deployment](t, objects, "Deployment")[0].Spec.Template.Spec.Containers[0]
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(objectsOfKind[corev1.ConfigMap](t, objects, "ConfigMap")[0].Data["config.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	var environment []string
	for _, variable := range container.Env {
		if variable.ValueFrom != nil && variable.ValueFrom.FieldRef.FieldPath == "metadata.namespace" {
			environment = append(environment, variable.Name+"=elsewhere")
		}
	}
	config, err := operator.Load(file, environment)
	if err != nil || config.Controller.Namespaces != "elsewhere" {
		t.Errorf("got %q, %v", config.Controller.Namespaces, err)
	}
	for _, port := range container.Ports {
		want := map[string]int{"link": config.Link.Port, "metrics": config.Metrics.Port, "health": config.Health.Port}[port.Name]
		if int(port.ContainerPort) != want {
			t.Errorf("port %s is %d, want %d", port.Name, port.ContainerPort, want)
		}
	}
}

// namespacedRights are the rights of an operator for one namespace, as if it had them everywhere.
func namespacedRights(t *testing.T) []Right {
	t.Helper()
	var rights []Right
	for _, role := range objectsOfKind[Role](t, tenantInstallations(t)["team-a"], "Role") {
		where := Everywhere
		if strings.HasSuffix(role.Name, "-home") {
			where = "swarm-system"
		}
		rights = append(rights, Split(where, role.Rules)...)
	}
	return SortRights(rights)
}

// documentedMissingRights returns what an operator for one namespace cannot do according to docs/reference/rbac.md: rows of what, verbs,
// and what that costs.
func documentedMissingRights(text string) map[Right]string {
	_, section, _ := strings.Cut(text, "## For one namespace")
	consequences := map[Right]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[0]) == "what" {
			continue
		}
		for n := range cells {
			cells[n] = strings.TrimSpace(strings.ReplaceAll(cells[n], "`", ""))
		}
		consequences[Right{Scope: Everywhere, Resource: cells[0], Verbs: cells[1]}] = cells[2]
	}
	return consequences
}

func TestMissingTenantRightsAreDocumented(t *testing.T) {
	have, consequences := namespacedRights(t), documentedMissingRights(string(readFile(t, "docs", "reference", "rbac.md")))
	var want []Right
	for _, right := range RightsOf(readRoles(t, "role.yaml")) {
		if left := subtractRights(right, have); left.Verbs != "" {
			want = append(want, left)
		}
	}
	for _, right := range want {
		if len(strings.Fields(consequences[right])) < 3 {
			t.Errorf("docs/reference/rbac.md does not say what is lost with: | %s | %s |", right.Resource, right.Verbs)
		}
	}
	if len(consequences) != len(want) {
		t.Errorf("docs/reference/rbac.md has %d rows of what is left out, %d rights are", len(consequences), len(want))
	}
}

// subtractRights is what of a right others do not have.
func subtractRights(right Right, others []Right) Right {
	for _, other := range others {
		if other.Scope == right.Scope && other.Resource == right.Resource {
			kept := strings.Split(other.Verbs, ", ")
			right.Verbs = strings.Join(slices.DeleteFunc(strings.Split(right.Verbs, ", "),
				func(verb string) bool { return slices.Contains(kept, verb) }), ", ")
		}
	}
	return right
}

// No role grants more than the operator of a whole cluster has.
func TestTenantOperatorHasNoExtraRights(t *testing.T) {
	granted := RightsOf(readRoles(t, "role.yaml"))
	for _, right := range namespacedRights(t) {
		if more := subtractRights(right, granted); more.Verbs != "" {
			t.Errorf("only an operator for one namespace may: %s", more)
		}
	}
}

// The administrator's part runs nothing and has no role binding.
func TestAdministratorPartGrantsNothing(t *testing.T) {
	objects, err := buildCached(filepath.Join("..", "..", "..", "deploy", "kustomize", "envs", "namespaced", "cluster"))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		switch object.GetKind() {
		case "CustomResourceDefinition", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding": // which only refuse
		case "ClusterRole":
			if object.GetLabels()["rbac.authorization.k8s.io/aggregate-to-admin"] != "true" {
				t.Errorf("ClusterRole %q adds to nothing", object.GetName())
			}
		default:
			t.Errorf("%s %q", object.GetKind(), object.GetName())
		}
	}
	for _, role := range objectsOfKind[Role](t, objects, "ClusterRole") {
		for _, right := range Split(role.Name, role.Rules) {
			if strings.Contains(right.Resource+right.Verbs, "*") {
				t.Errorf("a wildcard: %s", right)
			}
		}
	}
}
