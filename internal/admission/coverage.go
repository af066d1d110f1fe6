package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/survey"
	"github.com/swarm-io/swarm-operator/kit"
)

// SpreadWebhook is the one of the configuration's webhooks that is asked about the pods of spread workloads.
const SpreadWebhook = "spread.swarm.io"

// nowhere is the name of no namespace, since none has a dot in it.
const nowhere = "none.invalid"

// systemPrefix begins the names of the namespaces that Kubernetes keeps for itself. Nothing of ours stands in the way of what a cluster needs to live.
const systemPrefix = "kube-"

// Coverage is which namespaces the webhook is asked about for the sake of spread: those in scope that hold a managed workload.
type Coverage struct {
	Reader   client.Reader // a cache
	Settings survey.Settings
	Scope    *kit.Scope
	Own      string      // the operator's namespace
	Open     func() bool // whether the webhook has been there long enough to be found; nil: always
	Off      string      // why nobody is asked at all, "" when somebody is
}

// Covers tells whether the webhook is asked about the pods of a namespace, by what the cache holds of the configuration; and if it never
// will be, why.
func (c Coverage) Covers(ctx context.Context, namespace string) (covered bool, never string) {
	if why := c.never(namespace); why != "" || c.Settings.ReadOnly || c.Open != nil && !c.Open() {
		return false, why
	}
	found := &admissionv1.MutatingWebhookConfiguration{}
	err := c.Reader.Get(ctx, client.ObjectKey{Name: ConfigurationName}, found, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return false, ""
	}
	if hook := spreadOf(found); hook != nil {
		return asks(hook, namespace), ""
	}
	return false, fmt.Sprintf("MutatingWebhookConfiguration %q has no webhook %q: install it, or nobody is asked about pods", ConfigurationName, SpreadWebhook)
}

// never is why the pods of a namespace are nobody's business, "" when they may be somebody's.
func (c Coverage) never(namespace string) string {
	switch {
	case c.Off != "":
		return c.Off
	case strings.HasPrefix(namespace, systemPrefix):
		return fmt.Sprintf("namespace %s is the cluster's own, whose pods are left alone", namespace)
	case namespace == c.Own:
		return fmt.Sprintf("namespace %s is the operator's own, whose pods are left alone", namespace)
	}
	return ""
}

// asks tells whether a webhook is asked about the pods of a namespace. Without a bundle the API server would not take its answer.
func asks(hook *admissionv1.MutatingWebhook, namespace string) bool {
	selector, err := metav1.LabelSelectorAsSelector(hook.NamespaceSelector)
	return err == nil && len(hook.Rules) > 0 && len(hook.ClientConfig.CABundle) > 0 &&
		selector.Matches(labels.Set{corev1.LabelMetadataName: namespace})
}

// spreadOf is the webhook in question, nil when there is none.
func spreadOf(configuration *admissionv1.MutatingWebhookConfiguration) *admissionv1.MutatingWebhook {
	for n := range configuration.Webhooks {
		if configuration.Webhooks[n].Name == SpreadWebhook {
			return &configuration.Webhooks[n]
		}
	}
	return nil
}

// namespaces are those that the webhook should be asked about, in order.
func (c Coverage) namespaces(ctx context.Context) ([]string, error) {
	if c.Settings.ReadOnly || c.Off != "" {
		return nil, nil
	}
	holding, err := c.holding(ctx)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(holding)) {
		within, err := c.includes(ctx, name)
		if err != nil {
			return nil, err
		}
		if within && c.never(name) == "" {
			all = append(all, name)
		}
	}
	return all, nil
}

// holding are the namespaces with a managed workload. They are not kept from one time to the next: to look at ten thousand workloads takes
// a few milliseconds, and is needed only when one of them has begun or ceased to be managed.
func (c Coverage) holding(ctx context.Context) (map[string]bool, error) {
	deployments, sets, found := &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, map[string]bool{}
	if err := c.Reader.List(ctx, deployments, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Deployments: %w", err)
	}
	if err := c.Reader.List(ctx, sets, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list StatefulSets: %w", err)
	}
	for n := range deployments.Items {
		if c.manages(&deployments.Items[n]) {
			found[deployments.Items[n].Namespace] = true
		}
	}
	for n := range sets.Items {
		if c.manages(&sets.Items[n]) {
			found[sets.Items[n].Namespace] = true
		}
	}
	return found, nil
}

// manages tells whether a workload is managed. Most are not, and cost a look at their annotations and labels.
func (c Coverage) manages(object client.Object) bool {
	if !c.Settings.Enabled(object) {
		return false
	}
	switch workload := object.(type) {
	case *appsv1.Deployment:
		return c.Settings.Wish(survey.Deployment(workload)).Managed()
	case *appsv1.StatefulSet:
		return c.Settings.Wish(survey.StatefulSet(workload)).Managed()
	}
	return false
}

// includes tells whether a namespace is in scope. One that the cache does not know yet is looked at when it does.
func (c Coverage) includes(ctx context.Context, name string) (bool, error) {
	namespace := &corev1.Namespace{}
	err := c.Reader.Get(ctx, client.ObjectKey{Name: name}, namespace, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read namespace %q: %w", name, err)
	}
	return c.Scope.Includes(namespace), nil
}
