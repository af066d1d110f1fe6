package webhookconfig

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

	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/workload"
	"github.com/swarm-io/swarm-operator/kit"
)

// SpreadWebhook is the name of the webhook for pods of spread workloads.
const SpreadWebhook = "spread.swarm.io"

// noNamespace is no valid namespace name, since it has a dot.
const noNamespace = "none.invalid"

// systemNamespacePrefix begins the names of the namespaces that Kubernetes reserves. They are left alone, so that we cannot block what a
// cluster needs to run.
const systemNamespacePrefix = "kube-"

// NamespaceSelector determines the namespaces of the spread webhook: those in scope that hold a managed workload.
type NamespaceSelector struct {
	Reader            client.Reader // a cache
	Settings          snapshot.Settings
	Scope             *kit.Scope
	OperatorNamespace string      // the operator's namespace
	Reachable         func() bool // whether the webhook has been there long enough to be found; nil: always
	DisabledReason    string      // why the webhook is off, "" when it is on
}

// Covers reports whether the cached configuration covers the pods of a namespace, and why it never will if so.
func (c NamespaceSelector) Covers(ctx context.Context, namespace string) (covered bool, excluded string) {
	if reason := c.excludedReason(namespace); reason != "" || c.Settings.ReadOnly || c.Reachable != nil && !c.Reachable() {
		return false, reason
	}
	config := &admissionv1.MutatingWebhookConfiguration{}
	err := c.Reader.Get(ctx, client.ObjectKey{Name: ConfigurationName}, config, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return false, ""
	}
	if hook := spreadWebhook(config); hook != nil {
		return isCalledFor(hook, namespace), ""
	}
	return false, fmt.Sprintf("MutatingWebhookConfiguration %q has no webhook %q: install it, or no webhook is called for pods",
		ConfigurationName, SpreadWebhook)
}

// excludedReason returns why the pods of a namespace are never covered, or "".
func (c NamespaceSelector) excludedReason(namespace string) string {
	switch {
	case c.DisabledReason != "":
		return c.DisabledReason
	case strings.HasPrefix(namespace, systemNamespacePrefix):
		return fmt.Sprintf("namespace %s is the cluster's own, whose pods are left alone", namespace)
	case namespace == c.OperatorNamespace:
		return fmt.Sprintf("namespace %s is the operator's own, whose pods are left alone", namespace)
	}
	return ""
}

// isCalledFor reports whether the API server calls a webhook for the pods of a namespace. Without a bundle it would not accept the
// certificate.
func isCalledFor(hook *admissionv1.MutatingWebhook, namespace string) bool {
	selector, err := metav1.LabelSelectorAsSelector(hook.NamespaceSelector)
	return err == nil && len(hook.Rules) > 0 && len(hook.ClientConfig.CABundle) > 0 &&
		selector.Matches(labels.Set{corev1.LabelMetadataName: namespace})
}

// spreadWebhook returns the spread webhook, or nil.
func spreadWebhook(configuration *admissionv1.MutatingWebhookConfiguration) *admissionv1.MutatingWebhook {
	for n := range configuration.Webhooks {
		if configuration.Webhooks[n].Name == SpreadWebhook {
			return &configuration.Webhooks[n]
		}
	}
	return nil
}

// namespaces returns those that the webhook should cover, in order.
func (c NamespaceSelector) namespaces(ctx context.Context) ([]string, error) {
	if c.Settings.ReadOnly || c.DisabledReason != "" {
		return nil, nil
	}
	managed, err := c.managedNamespaces(ctx)
	if err != nil {
		return nil, err
	}
	var result []string
	for _, name := range slices.Sorted(maps.Keys(managed)) {
		inScope, err := c.isInScope(ctx, name)
		if err != nil {
			return nil, err
		}
		if inScope && c.excludedReason(name) == "" {
			result = append(result, name)
		}
	}
	return result, nil
}

// managedNamespaces returns the namespaces with a managed workload. They are not cached: a pass over ten thousand workloads takes a few
// milliseconds, and is needed only when one of them begins or ceases to be managed.
func (c NamespaceSelector) managedNamespaces(ctx context.Context) (map[string]bool, error) {
	deployments, statefulSets, result := &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, map[string]bool{}
	if err := c.Reader.List(ctx, deployments, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Deployments: %w", err)
	}
	if err := c.Reader.List(ctx, statefulSets, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list StatefulSets: %w", err)
	}
	for n := range deployments.Items {
		if c.isManaged(&deployments.Items[n]) {
			result[deployments.Items[n].Namespace] = true
		}
	}
	for n := range statefulSets.Items {
		if c.isManaged(&statefulSets.Items[n]) {
			result[statefulSets.Items[n].Namespace] = true
		}
	}
	return result, nil
}

// isManaged reports whether a workload is managed. For most, a look at annotations and labels is enough.
func (c NamespaceSelector) isManaged(object client.Object) bool {
	if !c.Settings.Enabled(object) {
		return false
	}
	switch typed := object.(type) {
	case *appsv1.Deployment:
		return c.Settings.Spec(workload.Deployment(typed)).Managed()
	case *appsv1.StatefulSet:
		return c.Settings.Spec(workload.StatefulSet(typed)).Managed()
	}
	return false
}

// isInScope reports whether a namespace is in scope. One that the cache does not know yet is checked when it arrives.
func (c NamespaceSelector) isInScope(ctx context.Context, name string) (bool, error) {
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
