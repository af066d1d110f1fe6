package deploy

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
)

// fenceName and requesterName are the policies of deploy/kustomize/components/policies.
const (
	fenceName     = "operator-fence.swarm.io"
	requesterName = "requester.swarm.io"
)

// operations maps the verbs that write to the operations of admission.
var operations = map[string]string{"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE",
	"deletecollection": "DELETE"}

// notAdmitted are rights whose use no policy sees.
var notAdmitted = map[string]string{
	"tokenreviews.authentication.k8s.io":        "the API server asks no policy about reviews",
	"subjectaccessreviews.authorization.k8s.io": "the API server asks no policy about reviews",
	"swarms.swarm.io/finalizers":                "is only ever asked for by OwnerReferencesPermissionEnforcement",
}

// writeOperations returns the rights of a role as the fence writes them, such as "CREATE pods/eviction". Verbs that are no writes of an
// object, such as impersonate, are returned unchanged, so that no fence can name them.
func writeOperations(rights []Right) []string {
	var lines []string
	for _, right := range rights {
		resource, _, _ := strings.Cut(right.Resource, " ")
		for verb := range strings.SplitSeq(right.Verbs, ", ") {
			if notAdmitted[resource] != "" || slices.Contains([]string{"get", "list", "watch"}, verb) {
				continue
			}
			if operation, known := operations[verb]; known {
				verb = operation
			}
			lines = append(lines, verb+" "+resource)
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// fenceOperations returns the writes that the fence names.
func fenceOperations(t *testing.T) []string {
	t.Helper()
	policy := policiesOf(t, "envs/dev")[fenceName]
	if policy == nil {
		t.Fatal("there is no fence")
	}
	_, list, found := strings.Cut(policy.Spec.Validations[0].Expression, "variables.write in [")
	if !found {
		t.Fatalf("the first validation names no writes: %s", policy.Spec.Validations[0].Expression)
	}
	var lines []string
	for _, match := range regexp.MustCompile(`'([^']*)'`).FindAllStringSubmatch(list, -1) {
		lines = append(lines, match[1])
	}
	slices.Sort(lines)
	return lines
}

// policiesOf are the policies of an environment, by name.
func policiesOf(t *testing.T, environment string) map[string]*admissionv1.ValidatingAdmissionPolicy {
	t.Helper()
	objects, err := buildCached(filepath.Join("..", "..", "..", "deploy", "kustomize", filepath.FromSlash(environment)))
	if err != nil {
		t.Fatal(err)
	}
	bindings := map[string]bool{}
	for _, binding := range objectsOfKind[admissionv1.ValidatingAdmissionPolicyBinding](t, objects, "ValidatingAdmissionPolicyBinding") {
		bindings[binding.Spec.PolicyName] = slices.Contains(binding.Spec.ValidationActions, admissionv1.Deny)
	}
	policies := map[string]*admissionv1.ValidatingAdmissionPolicy{}
	for _, policy := range objectsOfKind[admissionv1.ValidatingAdmissionPolicy](t, objects, "ValidatingAdmissionPolicy") {
		if !bindings[policy.Name] || *policy.Spec.FailurePolicy != admissionv1.Fail {
			t.Errorf("%s: policy %s refuses nothing", environment, policy.Name)
		}
		policies[policy.Name] = &policy
	}
	return policies
}

// A right that the fence does not name is refused at run time, so both are extended in one commit.
func TestFenceListsTheRolesWrites(t *testing.T) {
	allowed, listed := writeOperations(RightsOf(readRoles(t, "role.yaml"))), fenceOperations(t)
	for _, write := range allowed {
		if !slices.Contains(listed, write) {
			t.Errorf("the role allows %q: name it in components/policies/fence.yaml, with the objects that it is for", write)
		}
	}
	for _, write := range listed {
		if !slices.Contains(allowed, write) {
			t.Errorf("the fence names %q, which no role allows", write)
		}
	}
}

func TestWrites(t *testing.T) {
	got := writeOperations([]Right{
		{Everywhere, "pods", "delete, get, patch, update"}, {Everywhere, "secrets swarm-operator-link", "update, watch"},
		{Everywhere, "users", "impersonate"}, {Everywhere, "tokenreviews.authentication.k8s.io", "create"},
	})
	if want := []string{"DELETE pods", "UPDATE pods", "UPDATE secrets", "impersonate users"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// Whichever namespace an environment puts the operator into, the policies are the same.
func TestPoliciesAreInstalledEverywhere(t *testing.T) {
	want := policiesOf(t, ".")
	for _, environment := range []string{".", "envs/dev", "envs/namespaced/cluster"} {
		got := policiesOf(t, environment)
		for _, name := range []string{fenceName, requesterName} {
			if got[name] == nil || got[name].Spec.String() != want[name].Spec.String() {
				t.Errorf("%s: no %s, or another one", environment, name)
			}
		}
	}
}

// The fence finds the operator by the name of its account.
func TestFenceKnowsTheAccount(t *testing.T) {
	condition := policiesOf(t, "envs/dev")[fenceName].Spec.MatchConditions[0].Expression
	account := devObject[appsv1.Deployment](t, "Deployment", "swarm-operator").Spec.Template.Spec.ServiceAccountName
	if !strings.Contains(condition, "endsWith(':"+account+"')") {
		t.Errorf("the operator runs as %q, the fence is for %s", account, condition)
	}
}

// The API server stops an expression before its third authorization check, and refuses the request.
func TestExpressionsHaveTwoAuthorizationChecks(t *testing.T) {
	for _, validation := range policiesOf(t, ".")[requesterName].Spec.Validations {
		if checks := strings.Count(validation.Expression, ".check("); checks > 2 {
			t.Errorf("%d checks in %s", checks, validation.Expression)
		}
	}
}
