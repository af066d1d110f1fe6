package deploy

import (
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const aggregateTo = "rbac.authorization.k8s.io/aggregate-to-"

// aggregated returns the ClusterRoles that Kubernetes adds to its own.
func aggregated(t *testing.T, objects []*unstructured.Unstructured) map[string]rbacv1.ClusterRole {
	t.Helper()
	found := map[string]rbacv1.ClusterRole{}
	for _, role := range typed[rbacv1.ClusterRole](t, objects, "ClusterRole") {
		for label := range role.Labels {
			if strings.HasPrefix(label, aggregateTo) {
				found[role.Name] = role
			}
		}
	}
	return found
}

// An operator for the whole cluster has rights of its own: no user needs to write a status.
func TestUsersOfTheWholeClusterMayEditAndView(t *testing.T) {
	for home, objects := range installations(t) {
		found := aggregated(t, objects)
		if len(found) != 2 {
			t.Errorf("%s: %d ClusterRoles are added to those of Kubernetes", home, len(found))
		}
		for name, to := range map[string]string{"swarm-edit": "edit", "swarm-view": "view"} {
			labels := found[name].Labels
			if labels[aggregateTo+"admin"] != "true" || labels[aggregateTo+to] != "true" {
				t.Errorf("%s: %s has labels %v", home, name, labels)
			}
			for _, right := range Split(name, found[name].Rules) {
				if strings.HasSuffix(right.What, "/status") || strings.HasSuffix(right.What, "/finalizers") {
					t.Errorf("%s: users may write what is the operator's: %s", home, right)
				}
			}
		}
		if labels := found["swarm-edit"].Labels; labels[aggregateTo+"view"] != "" {
			t.Errorf("%s: viewers may edit: %v", home, labels)
		}
	}
}

func TestUsersOfSingleNamespacesHaveTheSameRoles(t *testing.T) {
	objects, err := kustomized(filepath.Join("..", "..", "..", "deploy", "kustomize", "envs", "namespaced", "cluster"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"swarm-edit", "swarm-view"} {
		if _, there := aggregated(t, objects)[name]; !there {
			t.Errorf("no ClusterRole %q", name)
		}
	}
}
