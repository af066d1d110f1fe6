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

// SpreadWebhook is the name of the webhook for pods of spread workloads.
const SpreadWebhook = "spread.swarm.io"

// nowhere is no valid namespace name, since it has a dot.
const nowhere = "none.invalid"

// systemPrefix begins the names of the namespaces that Kubernetes reserves. They are left alone, so that we cannot block what a
// cluster needs to run.
const systemPrefix = "kube-"

// Coverage determines the namespaces of the spread webhook: those in scope that hold a managed workload.
type Coverage struct {
	Reader   client.Reader // a cache
	Settings survey.Settings
	Scope    *kit.Scope
	Own      string      // the operator's namespace
	Open     func() bool // whether the webhook has been there long enough to be found; nil: always
	Off      string      // why the webhook is off, "" when it is on
}

// Covers reports whether the cached configuration covers the pods of a namespace, and why it never will if so.
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
	return false, fmt.Sprintf("MutatingWebhookConfiguration %q has no webhook %q: install it, or no webhook is called for pods", ConfigurationName, SpreadWebhook)
}

// never returns why the pods of a namespace are never covered, or "".
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

// asks reports whether the API server calls a webhook for the pods of a namespace. Without a bundle it would not accept the
// certificate.
func asks(hook *admissionv1.MutatingWebhook, namespace string) bool {
	selector, err := metav1.LabelSelectorAsSelector(hook.NamespaceSelector)
	return err == nil && len(hook.Rules) > 0 && len(hook.ClientConfig.CABundle) > 0 &&
		selector.Matches(labels.Set{corev1.LabelMetadataName: namespace})
}

// spreadOf returns the spread webhook, or nil.
func spreadOf(configuration *admissionv1.MutatingWebhookConfiguration) *admissionv1.MutatingWebhook {
	for n := range configuration.Webhooks {
		if configuration.Webhooks[n].Name == SpreadWebhook {
			return &configuration.Webhooks[n]
		}
	}
	return nil
}

// namespaces returns those that the webhook should cover, in order.
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

// holding returns the namespaces with a managed workload. They are not cached: a pass over ten thousand workloads takes a few
// milliseconds, and is needed only when one of them begins or ceases to be managed.
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

// manages reports whether a workload is managed. For most, a look at annotations and labels is enough.
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

// includes reports whether a namespace is in scope. One that the cache does not know yet is checked when it arrives.
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
