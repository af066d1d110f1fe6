package deploy

import (
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const aggregateTo = "rbac.authorization.k8s.io/aggregate-to-"

// aggregatedRoles returns the ClusterRoles that Kubernetes adds to its own.
func aggregatedRoles(t *testing.T, objects []*unstructured.Unstructured) map[string]rbacv1.ClusterRole {
	t.Helper()
	roles := map[string]rbacv1.ClusterRole{}
	for _, role := range objectsOfKind[rbacv1.ClusterRole](t, objects, "ClusterRole") {
		for label := range role.Labels {
			if strings.HasPrefix(label, aggregateTo) {
				roles[role.Name] = role
			}
		}
	}
	return roles
}

// An operator for the whole cluster has rights of its own: no user needs to write a status.
func TestUsersOfTheWholeClusterMayEditAndView(t *testing.T) {
	for namespace, objects := range installations(t) {
		roles := aggregatedRoles(t, objects)
		if len(roles) != 2 {
			t.Errorf("%s: %d ClusterRoles are added to those of Kubernetes", namespace, len(roles))
		}
		for name, to := range map[string]string{"swarm-edit": "edit", "swarm-view": "view"} {
			labels := roles[name].Labels
			if labels[aggregateTo+"admin"] != "true" || labels[aggregateTo+to] != "true" {
				t.Errorf("%s: %s has labels %v", namespace, name, labels)
			}
			for _, right := range Split(name, roles[name].Rules) {
				if strings.HasSuffix(right.Resource, "/status") || strings.HasSuffix(right.Resource, "/finalizers") {
					t.Errorf("%s: users may write what is the operator's: %s", namespace, right)
				}
			}
		}
		if labels := roles["swarm-edit"].Labels; labels[aggregateTo+"view"] != "" {
			t.Errorf("%s: viewers may edit: %v", namespace, labels)
		}
	}
}

func TestUsersOfSingleNamespacesHaveTheSameRoles(t *testing.T) {
	objects, err := buildCached(filepath.Join("..", "..", "..", "deploy", "kustomize", "envs", "namespaced", "cluster"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"swarm-edit", "swarm-view"} {
		if _, there := aggregatedRoles(t, objects)[name]; !there {
			t.Errorf("no ClusterRole %q", name)
		}
	}
}
