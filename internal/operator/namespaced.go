package operator

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/swarm-io/swarm-operator/kit"
)

// A confined operator has rights in some namespaces only, and none at cluster scope: it does without everything that needs those.

// namespaceNames returns those that the operator is confined to; none if it has the whole cluster.
func (c Config) namespaceNames() []string { return splitList(c.Controller.Namespaces) }

func (c Config) isNamespaced() bool { return len(c.namespaceNames()) > 0 }

// scope returns the namespaces that controllers work in.
func (c Config) scope() (*kit.Scope, error) {
	if c.isNamespaced() {
		return kit.NewNamedScope(c.namespaceNames()...), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(&c.Controller.NamespaceSelector)
	if err != nil {
		return nil, fmt.Errorf("select namespaces: %w", err)
	}
	return kit.NewScope(selector), nil
}

// restrictCaches restricts caches to what may be listed. Kinds with namespaces of their own in the options keep them.
func (c Config) restrictCaches(options cache.Options) cache.Options {
	for _, name := range c.namespaceNames() {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[name] = cache.Config{}
	}
	return options
}

// spreadDisabledReason returns why workloads are not spread, "" when they are.
func (c Config) spreadDisabledReason() string {
	if !c.isNamespaced() {
		return ""
	}
	return "controller.namespaces is set, and nodes, which it is about, belong to no namespace"
}

// perWorkerDisabledReason returns why pools have one ConfigMap for all workers, "" when each can have its own.
func (c Config) perWorkerDisabledReason() string {
	if !c.isNamespaced() {
		return ""
	}
	return "controller.namespaces is set, and the webhook, which gives each worker its own list, is the whole cluster's"
}

// checkNamespaced rejects settings that need rights at cluster scope. Ignoring them would hide the problem from the user.
func (c Config) checkNamespaced() error {
	if !c.isNamespaced() {
		return nil
	}
	if err := checkNamespaceNames("controller.namespaces", c.namespaceNames()); err != nil {
		return err
	}
	var problems []error
	reject := func(isSet bool, problem string) {
		if isSet {
			problems = append(problems, errors.New(problem))
		}
	}
	selector := c.Controller.NamespaceSelector
	reject(len(selector.MatchLabels)+len(selector.MatchExpressions) > 0,
		"controller.namespaceSelector needs the labels of namespaces, which controller.namespaces does without: remove one of the two")
	reject(c.Webhook.Enabled, "webhook.enabled is true, and a webhook is the whole cluster's: write false, or remove controller.namespaces")
	return errors.Join(problems...)
}

// checkNamespaceNames requires names of namespaces without duplicates.
func checkNamespaceNames(key string, names []string) error {
	seen := map[string]bool{}
	for _, name := range names {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return fmt.Errorf("%s has %q: write comma-separated names of namespaces, each at most 63 of a-z, 0-9 and -", key, name)
		}
		if seen[name] {
			return fmt.Errorf("%s has %q twice: write it once", key, name)
		}
		seen[name] = true
	}
	return nil
}
