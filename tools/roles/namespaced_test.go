package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const generated = `---
kind: ClusterRole
metadata: {name: swarm-operator}
rules:
- {apiGroups: [""], resources: [nodes, configmaps], verbs: [get, list]}
- {apiGroups: [""], resources: [pods], verbs: [delete, get]}
- {apiGroups: [swarm.io], resources: [swarms, swarms/status], verbs: [patch]}
---
kind: Role
metadata: {name: swarm-operator, namespace: swarm-system}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [swarm-operator], verbs: [update]}
`

// short are the rules of a role, one after the other.
func short(r role) string {
	var all []string
	for _, one := range single(r.Rules) {
		all = append(all, strings.Join(slices.Concat(one.APIGroups, one.Resources, one.ResourceNames, one.Verbs), " "))
	}
	return strings.Join(all, "; ")
}

func TestNamespacedRoles(t *testing.T) {
	all := excludedRights
	t.Cleanup(func() { excludedRights = all })
	excludedRights = []exception{{"", "nodes", nil, reasonClusterScoped}, {"", "pods", []string{"delete"}, reasonSpreadOnly}}
	got, err := namespacedRolesFrom([]byte(generated))
	if err != nil {
		t.Fatal(err)
	}
	if want := " configmaps get list;  pods get; swarm.io swarms patch; swarm.io swarms/status patch"; short(got.clusterWide) != want ||
		got.clusterWide.Kind != "Role" {
		t.Errorf("everywhere: got %s %q", got.clusterWide.Kind, short(got.clusterWide))
	}
	if want := "coordination.k8s.io leases swarm-operator update"; short(got.operatorNamespace) != want ||
		got.operatorNamespace.Kind != "Role" {
		t.Errorf("home: got %s %q", got.operatorNamespace.Kind, short(got.operatorNamespace))
	}
	if want := "swarm.io swarms patch; swarm.io swarms/status patch; coordination.k8s.io leases swarm-operator update"; short(got.tenant) !=
		want {
		t.Errorf("tenant: got %q", short(got.tenant))
	}
}

func TestUnusedExceptionIsAnError(t *testing.T) {
	if _, err := namespacedRolesFrom([]byte(generated)); err == nil || !strings.Contains(err.Error(), "remove it from leftOut") {
		t.Errorf("got %v", err)
	}
}

func TestBothRolesAreNeeded(t *testing.T) {
	for _, text := range []string{"", "kind: ClusterRole\nrules: [{verbs: [get]}]", "kind: ["} {
		if _, err := namespacedRolesFrom([]byte(text)); err == nil {
			t.Errorf("%q: accepted", text)
		}
	}
}

func TestEveryExceptionHasAReason(t *testing.T) {
	for _, one := range slices.Concat(excludedRights, tenantExtraRights) {
		if one.reason == "" {
			t.Errorf("there is no reason for %s of %q", one.resource, one.group)
		}
	}
}

// What is in the tree is what make manifests would write.
func TestGeneratedRolesAreUpToDate(t *testing.T) {
	kustomize, folder := filepath.Join("..", "..", "deploy", "kustomize"), t.TempDir()
	for _, name := range []string{"rights", "cluster"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := generate(filepath.Join(kustomize, "operator", "role.yaml"), folder); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"home.yaml", "rights/role.yaml", "cluster/tenant.yaml"} {
		want, unwritten := os.ReadFile(filepath.Join(folder, name))
		got, unread := os.ReadFile(filepath.Join(kustomize, "envs", "namespaced", name))
		if unwritten != nil || unread != nil || string(got) != string(want) {
			t.Errorf("%s is not up to date: run make manifests (%v, %v)", name, unwritten, unread)
		}
	}
}
