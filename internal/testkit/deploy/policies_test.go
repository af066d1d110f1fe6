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

// operations are what admission calls the verbs that write.
var operations = map[string]string{"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE", "deletecollection": "DELETE"}

// unjudged are rights whose use no policy sees.
var unjudged = map[string]string{
	"tokenreviews.authentication.k8s.io":        "the API server asks no policy about reviews",
	"subjectaccessreviews.authorization.k8s.io": "the API server asks no policy about reviews",
	"swarms.swarm.io/finalizers":                "is only ever asked for by OwnerReferencesPermissionEnforcement",
}

// writes returns the rights of a role as the fence writes them, such as "CREATE pods/eviction". Verbs that are no writes of an object, such
// as impersonate, are returned unchanged, so that no fence can name them.
func writes(rights []Right) []string {
	var all []string
	for _, right := range rights {
		what, _, _ := strings.Cut(right.What, " ")
		for verb := range strings.SplitSeq(right.Verbs, ", ") {
			if unjudged[what] != "" || slices.Contains([]string{"get", "list", "watch"}, verb) {
				continue
			}
			if operation, known := operations[verb]; known {
				verb = operation
			}
			all = append(all, verb+" "+what)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// fenced returns the writes that the fence names.
func fenced(t *testing.T) []string {
	t.Helper()
	policy := policiesIn(t, "envs/dev")[fenceName]
	if policy == nil {
		t.Fatal("there is no fence")
	}
	_, list, found := strings.Cut(policy.Spec.Validations[0].Expression, "variables.write in [")
	if !found {
		t.Fatalf("the first validation names no writes: %s", policy.Spec.Validations[0].Expression)
	}
	var all []string
	for _, match := range regexp.MustCompile(`'([^']*)'`).FindAllStringSubmatch(list, -1) {
		all = append(all, match[1])
	}
	slices.Sort(all)
	return all
}

// policiesIn are the policies of an environment, by name.
func policiesIn(t *testing.T, environment string) map[string]*admissionv1.ValidatingAdmissionPolicy {
	t.Helper()
	objects, err := kustomized(filepath.Join("..", "..", "..", "deploy", "kustomize", filepath.FromSlash(environment)))
	if err != nil {
		t.Fatal(err)
	}
	bound := map[string]bool{}
	for _, binding := range typed[admissionv1.ValidatingAdmissionPolicyBinding](t, objects, "ValidatingAdmissionPolicyBinding") {
		bound[binding.Spec.PolicyName] = slices.Contains(binding.Spec.ValidationActions, admissionv1.Deny)
	}
	found := map[string]*admissionv1.ValidatingAdmissionPolicy{}
	for _, policy := range typed[admissionv1.ValidatingAdmissionPolicy](t, objects, "ValidatingAdmissionPolicy") {
		if !bound[policy.Name] || *policy.Spec.FailurePolicy != admissionv1.Fail {
			t.Errorf("%s: policy %s refuses nothing", environment, policy.Name)
		}
		found[policy.Name] = &policy
	}
	return found
}

// A right that the fence does not name is refused at run time, so both are extended in one commit.
func TestFenceNamesWhatTheRoleAllows(t *testing.T) {
	allowed, named := writes(Granted(roles(t, "role.yaml"))), fenced(t)
	for _, write := range allowed {
		if !slices.Contains(named, write) {
			t.Errorf("the role allows %q: name it in components/policies/fence.yaml, with the objects that it is for", write)
		}
	}
	for _, write := range named {
		if !slices.Contains(allowed, write) {
			t.Errorf("the fence names %q, which no role allows", write)
		}
	}
}

func TestWrites(t *testing.T) {
	got := writes([]Right{
		{Everywhere, "pods", "delete, get, patch, update"}, {Everywhere, "secrets swarm-operator-link", "update, watch"},
		{Everywhere, "users", "impersonate"}, {Everywhere, "tokenreviews.authentication.k8s.io", "create"},
	})
	if want := []string{"DELETE pods", "UPDATE pods", "UPDATE secrets", "impersonate users"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// Whichever namespace an environment puts the operator into, the policies are the same.
func TestPoliciesAreInstalledEverywhere(t *testing.T) {
	want := policiesIn(t, ".")
	for _, environment := range []string{".", "envs/dev", "envs/namespaced/cluster"} {
		got := policiesIn(t, environment)
		for _, name := range []string{fenceName, requesterName} {
			if got[name] == nil || got[name].Spec.String() != want[name].Spec.String() {
				t.Errorf("%s: no %s, or another one", environment, name)
			}
		}
	}
}

// The fence finds the operator by the name of its account.
func TestFenceKnowsTheAccount(t *testing.T) {
	condition := policiesIn(t, "envs/dev")[fenceName].Spec.MatchConditions[0].Expression
	account := applied[appsv1.Deployment](t, "Deployment", "swarm-operator").Spec.Template.Spec.ServiceAccountName
	if !strings.Contains(condition, "endsWith(':"+account+"')") {
		t.Errorf("the operator runs as %q, the fence is for %s", account, condition)
	}
}

// The API server stops an expression before its third authorization check, and refuses the request.
func TestExpressionsHaveTwoAuthorizationChecks(t *testing.T) {
	for _, validation := range policiesIn(t, ".")[requesterName].Spec.Validations {
		if checks := strings.Count(validation.Expression, ".check("); checks > 2 {
			t.Errorf("%d checks in %s", checks, validation.Expression)
		}
	}
}
