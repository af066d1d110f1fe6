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

// namespaces returns those that the operator is confined to; none if it has the whole cluster.
func (c Config) namespaces() []string { return listed(c.Controller.Namespaces) }

func (c Config) confined() bool { return len(c.namespaces()) > 0 }

// scope returns the namespaces that controllers work in.
func (c Config) scope() (*kit.Scope, error) {
	if c.confined() {
		return kit.NewNamedScope(c.namespaces()...), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(&c.Controller.NamespaceSelector)
	if err != nil {
		return nil, fmt.Errorf("select namespaces: %w", err)
	}
	return kit.NewScope(selector), nil
}

// confine restricts caches to what may be listed. Kinds with namespaces of their own in the options keep them.
func (c Config) confine(options cache.Options) cache.Options {
	for _, name := range c.namespaces() {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[name] = cache.Config{}
	}
	return options
}

// spreadOff returns why workloads are not spread, "" when they are.
func (c Config) spreadOff() string {
	if !c.confined() {
		return ""
	}
	return "controller.namespaces is set, and nodes, which it is about, belong to no namespace"
}

// perWorkerOff returns why pools have one ConfigMap for all workers, "" when each can have its own.
func (c Config) perWorkerOff() string {
	if !c.confined() {
		return ""
	}
	return "controller.namespaces is set, and the webhook, which gives each worker its own list, is the whole cluster's"
}

// confinement rejects settings that need rights at cluster scope. Ignoring them would hide the problem from the user.
func (c Config) confinement() error {
	if !c.confined() {
		return nil
	}
	if err := distinct("controller.namespaces", c.namespaces()); err != nil {
		return err
	}
	var problems []error
	refuse := func(wrong bool, problem string) {
		if wrong {
			problems = append(problems, errors.New(problem))
		}
	}
	selector := c.Controller.NamespaceSelector
	refuse(len(selector.MatchLabels)+len(selector.MatchExpressions) > 0, "controller.namespaceSelector needs the labels of namespaces, which controller.namespaces does without: remove one of the two")
	refuse(c.Webhook.Enabled, "webhook.enabled is true, and a webhook is the whole cluster's: write false, or remove controller.namespaces")
	return errors.Join(problems...)
}

// distinct requires names of namespaces without duplicates.
func distinct(key string, names []string) error {
	seen := map[string]bool{}
	for _, name := range names {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return fmt.Errorf("%s has %q: write names of namespaces parted by commas, each at most 63 of a-z, 0-9 and -", key, name)
		}
		if seen[name] {
			return fmt.Errorf("%s has %q twice: write it once", key, name)
		}
		seen[name] = true
	}
	return nil
}
