package operator

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// withoutCluster has the keys that a confined operator needs besides its namespaces.
const withoutCluster = "webhook: {enabled: false}\n"

func TestNamespacesAreTaken(t *testing.T) {
	for reason, c := range map[string]struct{ file, env string }{
		"in the file":        {withoutCluster + "controller: {namespaces: 'team-a,team-b'}", ""},
		"in the environment": {withoutCluster, "SWARM_CONTROLLER_NAMESPACES=team-a, team-b"},
		"with open metrics":  {withoutCluster + "metrics: {secure: false}\ncontroller: {namespaces: 'team-a,team-b'}", ""},
		"without metrics":    {withoutCluster + "metrics: {enabled: false}\ncontroller: {namespaces: 'team-a,team-b'}", ""},
	} {
		config, err := Load(written(t, c.file), []string{c.env})
		if err != nil || !slices.Equal(config.namespaces(), []string{"team-a", "team-b"}) || config.spreadOff() == "" {
			t.Errorf("%s: got %q, %v", reason, config.namespaces(), err)
		}
	}
	if config := Defaults(); config.confined() || config.spreadOff() != "" {
		t.Error("without the key an operator has the whole cluster")
	}
}

func TestWhatNeedsTheClusterIsRefused(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"controller: {namespaces: team-a}", "webhook.enabled is true"},
		{withoutCluster + "controller: {namespaces: team-a, namespaceSelector: {matchLabels: {a: b}}}", "controller.namespaceSelector needs the labels of namespaces"},
		{withoutCluster + "controller: {namespaces: team-a, namespaceSelector: {matchExpressions: [{key: a, operator: Exists}]}}", "controller.namespaceSelector needs the labels of namespaces"},
		{withoutCluster + "controller: {namespaces: 'team-a,team-a'}", `controller.namespaces has "team-a" twice: write it once`},
		{withoutCluster + "controller: {namespaces: 'team-a,'}", `controller.namespaces has ""`},
		{withoutCluster + "controller: {namespaces: Team_A}", `controller.namespaces has "Team_A": write names of namespaces`},
		{withoutCluster + "controller: {namespaces: [team-a]}", `controller.namespaces is ["team-a"]: write a text`},
	} {
		_, err := Load(written(t, c.file), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v", c.file, err)
		}
	}
}

func TestCachesAreConfined(t *testing.T) {
	config := Defaults()
	if open := config.confine(cache.Options{}); open.DefaultNamespaces != nil {
		t.Errorf("got %v", open.DefaultNamespaces)
	}
	config.Controller.Namespaces = "team-a,team-b"
	options := config.confine(caches("home", config.spreading(), nil, nil))
	if names := slices.Sorted(maps.Keys(options.DefaultNamespaces)); !slices.Equal(names, []string{"team-a", "team-b"}) {
		t.Errorf("got %v", names)
	}
	for kind, by := range options.ByObject {
		_, isSecret := kind.(*corev1.Secret)
		if _, atHome := by.Namespaces["home"]; atHome != isSecret {
			t.Errorf("%T is cached in %v", kind, by.Namespaces)
		}
	}
}

func TestScopeIsByNameOrByLabel(t *testing.T) {
	labelled := func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name, "team": "b"}}}
	}
	config := Defaults()
	config.Controller.NamespaceSelector = metav1.LabelSelector{MatchLabels: client.MatchingLabels{"team": "b"}}
	byLabel, err := config.scope()
	if err != nil || !byLabel.Includes(labelled("x")) {
		t.Errorf("by label: %v", err)
	}
	config.Controller = Controller{Namespaces: "y"}
	byName, err := config.scope()
	if err != nil || byName.Includes(labelled("x")) || !byName.Includes(labelled("y")) {
		t.Errorf("by name: %v", err)
	}
}
