package deploy

import (
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/swarm-io/swarm-operator/internal/controller/webhookconfig"
	"github.com/swarm-io/swarm-operator/internal/webhook/pool"
	"github.com/swarm-io/swarm-operator/internal/webhook/spread"
)

// The operator keeps the configuration of that name, answers at those paths, and its certificate is for that Service.
func TestAPIServerCallsTheOperator(t *testing.T) {
	hooks := devObject[admissionv1.MutatingWebhookConfiguration](t, "MutatingWebhookConfiguration", webhookconfig.ConfigurationName).Webhooks
	service := devObject[corev1.Service](t, "Service", "swarm-operator-webhook")
	paths := map[string]string{"pods.swarm.io": pool.Path, webhookconfig.SpreadWebhook: spread.Path}
	if len(hooks) != len(paths) {
		t.Errorf("%d webhooks", len(hooks))
	}
	for _, hook := range hooks {
		asked := hook.ClientConfig.Service
		if asked.Namespace != service.Namespace || asked.Name != service.Name || *asked.Port != service.Spec.Ports[0].Port ||
			*asked.Path != paths[hook.Name] {
			t.Errorf("%s asks %+v, the Service is %s/%s", hook.Name, asked, service.Namespace, service.Name)
		}
		if len(hook.ClientConfig.CABundle) > 0 {
			t.Errorf("%s: applying it again would take the CA away that the operator has put there", hook.Name)
		}
	}
}

// The operator sets the namespaces for which the webhook is called. Until then there is none, and applying the configuration again changes
// none of it.
func TestNoNamespaceIsSelectedInitially(t *testing.T) {
	for _, hook := range devObject[admissionv1.MutatingWebhookConfiguration](t, "MutatingWebhookConfiguration",
		webhookconfig.ConfigurationName).Webhooks {
		if hook.Name != webhookconfig.SpreadWebhook {
			continue
		}
		if len(hook.Rules) > 0 || hook.NamespaceSelector != nil {
			t.Errorf("asks about %v of %v", hook.Rules, hook.NamespaceSelector)
		}
		if *hook.FailurePolicy != admissionv1.Ignore || *hook.TimeoutSeconds != 2 ||
			*hook.ReinvocationPolicy != admissionv1.NeverReinvocationPolicy {
			t.Errorf("stands in the way of pods: %+v", hook)
		}
	}
}

// Pods of the operator that wait for an answer of the operator would never start.
func TestAdmissionExcludesTheOperatorNamespace(t *testing.T) {
	for operatorNamespace, objects := range installations(t) {
		for _, hook := range findObject[admissionv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration",
			webhookconfig.ConfigurationName).Webhooks {
			if hook.Name == webhookconfig.SpreadWebhook {
				notOwn := func(c admissionv1.MatchCondition) bool {
					return c.Expression == "request.namespace != '"+operatorNamespace+"'"
				}
				if !slices.ContainsFunc(hook.MatchConditions, notOwn) {
					t.Errorf("%s: %s asks about %v", operatorNamespace, hook.Name, hook.MatchConditions)
				}
				continue
			}
			selector, err := metav1.LabelSelectorAsSelector(hook.NamespaceSelector)
			if err != nil {
				t.Fatal(err)
			}
			for namespace, asked := range map[string]bool{operatorNamespace: false, metav1.NamespaceSystem: false, "team-a": true} {
				if selector.Matches(labels.Set{corev1.LabelMetadataName: namespace}) != asked {
					t.Errorf("%s: %s asks about namespace %q: want %t", operatorNamespace, hook.Name, namespace, asked)
				}
			}
		}
	}
}

// What the operator answers for a namespace of the cluster could change its pods, and what it does not answer could keep them from being
// created. The policy operator-fence.swarm.io keeps the operator from writing there, and from changing these conditions.
func TestAdmissionExcludesSystemNamespaces(t *testing.T) {
	for operatorNamespace, objects := range installations(t) {
		for _, hook := range findObject[admissionv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration",
			webhookconfig.ConfigurationName).Webhooks {
			notSystem := func(c admissionv1.MatchCondition) bool {
				return c.Expression == "!request.namespace.startsWith('kube-')"
			}
			if !slices.ContainsFunc(hook.MatchConditions, notSystem) {
				t.Errorf("%s: %s asks about %v", operatorNamespace, hook.Name, hook.MatchConditions)
			}
		}
	}
}
