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

// namespacedDefaults has the keys that a confined operator needs besides its namespaces.
const namespacedDefaults = "webhook: {enabled: false}\n"

func TestNamespacesAreTaken(t *testing.T) {
	for reason, c := range map[string]struct{ file, env string }{
		"in the file":        {namespacedDefaults + "controller: {namespaces: 'team-a,team-b'}", ""},
		"in the environment": {namespacedDefaults, "SWARM_CONTROLLER_NAMESPACES=team-a, team-b"},
		"with open metrics":  {namespacedDefaults + "metrics: {secure: false}\ncontroller: {namespaces: 'team-a,team-b'}", ""},
		"without metrics":    {namespacedDefaults + "metrics: {enabled: false}\ncontroller: {namespaces: 'team-a,team-b'}", ""},
	} {
		config, err := Load(writeConfig(t, c.file), []string{c.env})
		if err != nil || !slices.Equal(config.namespaceNames(), []string{"team-a", "team-b"}) || config.spreadDisabledReason() == "" {
			t.Errorf("%s: got %q, %v", reason, config.namespaceNames(), err)
		}
	}
	if config := Defaults(); config.isNamespaced() || config.spreadDisabledReason() != "" {
		t.Error("without the key an operator has the whole cluster")
	}
}

func TestWhatNeedsTheClusterIsRefused(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"controller: {namespaces: team-a}", "webhook.enabled is true"},
		{namespacedDefaults + "controller: {namespaces: team-a, namespaceSelector: {matchLabels: {a: b}}}",
			"controller.namespaceSelector needs the labels of namespaces"},
		{namespacedDefaults + "controller: {namespaces: team-a, namespaceSelector: {matchExpressions: [{key: a, operator: Exists}]}}",
			"controller.namespaceSelector needs the labels of namespaces"},
		{namespacedDefaults + "controller: {namespaces: 'team-a,team-a'}", `controller.namespaces has "team-a" twice: write it once`},
		{namespacedDefaults + "controller: {namespaces: 'team-a,'}", `controller.namespaces has ""`},
		{namespacedDefaults + "controller: {namespaces: Team_A}", `controller.namespaces has "Team_A": write comma-separated names of namespaces`},
		{namespacedDefaults + "controller: {namespaces: [team-a]}", `controller.namespaces is ["team-a"]: write a text`},
	} {
		_, err := Load(writeConfig(t, c.file), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v", c.file, err)
		}
	}
}

func TestCachesAreConfined(t *testing.T) {
	config := Defaults()
	if open := config.restrictCaches(cache.Options{}); open.DefaultNamespaces != nil {
		t.Errorf("got %v", open.DefaultNamespaces)
	}
	config.Controller.Namespaces = "team-a,team-b"
	options := config.restrictCaches(cacheOptions("home", config.spreadSettings(), nil, nil))
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

func TestScopeByNameOrLabel(t *testing.T) {
	labelled := func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{corev1.LabelMetadataName: name, "team": "b"}}}
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
