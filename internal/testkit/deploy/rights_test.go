package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

func readFile(t *testing.T, elements ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", "..", ".."}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func readRoles(t *testing.T, file string) []Role {
	t.Helper()
	found, err := Roles(readFile(t, "deploy", "kustomize", "operator", file))
	if err != nil || len(found) == 0 {
		t.Fatalf("found %d roles in %s: %v", len(found), file, err)
	}
	return found
}

func TestR20_ReasonsForEveryRight(t *testing.T) {
	granted := RightsOf(readRoles(t, "role.yaml"))
	reasons := DocumentedRights(string(readFile(t, "docs", "reference", "rbac.md")))
	for _, right := range granted {
		if len(strings.Fields(reasons[right])) < 3 {
			t.Errorf("docs/reference/rbac.md does not say why. Add: %s why |", right)
		}
	}
	for right := range reasons {
		if !slices.Contains(granted, right) {
			t.Errorf("docs/reference/rbac.md explains a right that is not granted. Remove: %s ... |", right)
		}
	}
}

func TestO15_NoWildcard(t *testing.T) {
	for _, role := range append(readRoles(t, "role.yaml"), readRoles(t, "bindings.yaml")...) {
		for _, right := range Split(role.Name, role.Rules) {
			if strings.Contains(right.Resource+right.Verbs, "*") {
				t.Errorf("a wildcard: %s", right)
			}
		}
	}
}

func TestSecretsAreTheOperatorsOwn(t *testing.T) {
	for _, right := range RightsOf(readRoles(t, "role.yaml")) {
		if strings.HasPrefix(right.Resource, "secrets") && right.Scope == Everywhere {
			t.Errorf("the operator reads no secrets but its own: %s", right)
		}
	}
}

func TestSplit(t *testing.T) {
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{"", "apps"}, Resources: []string{"b", "a/status"}, Verbs: []string{"watch", "get"}},
		{APIGroups: []string{"x.io"}, Resources: []string{"c"}, ResourceNames: []string{"one", "two"}, Verbs: []string{"get"}},
		{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
	}
	want := []Right{
		{"n", "/metrics", "get"},
		{"n", "a.apps/status", "get, watch"}, {"n", "a/status", "get, watch"},
		{"n", "b", "get, watch"}, {"n", "b.apps", "get, watch"},
		{"n", "c.x.io one two", "get"},
	}
	if got := SortRights(Split("n", rules)); !slices.Equal(got, SortRights(want)) {
		t.Errorf("got %v", got)
	}
}

func TestExplained(t *testing.T) {
	text := "| where | what | verbs | why |\n|---|---|---|---|\n| everywhere | `pods` | get, list | to see them |\nnot a line\n"
	got := DocumentedRights(text)
	if len(got) != 1 || got[Right{Everywhere, "pods", "get, list"}] != "to see them" {
		t.Errorf("got %v", got)
	}
}
