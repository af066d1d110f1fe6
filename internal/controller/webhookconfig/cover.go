package webhookconfig

import (
	"context"
	"fmt"
	"maps"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// namespaceSelectorController is the leader's part: it limits the spread webhook to the right namespaces.
type namespaceSelectorController struct {
	client   client.Client
	selector NamespaceSelector
}

// AddNamespaceSelectorController adds a controller that keeps the namespaces of the spread webhook in the configuration.
func AddNamespaceSelectorController(mgr manager.Manager, selector NamespaceSelector) error {
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: ConfigurationName}}}
	})
	changed := selector.managedChanged()
	err := builder.ControllerManagedBy(mgr).Named("coverage").
		WatchesRawSource(source.Kind(mgr.GetCache(), client.Object(&admissionv1.MutatingWebhookConfiguration{}), enqueue)).
		WatchesRawSource(source.Kind(mgr.GetCache(), client.Object(&appsv1.Deployment{}), enqueue, changed)).
		WatchesRawSource(source.Kind(mgr.GetCache(), client.Object(&appsv1.StatefulSet{}), enqueue, changed)).
		WatchesRawSource(source.Kind(mgr.GetCache(), client.Object(&corev1.Namespace{}), enqueue, labelsChanged())).
		Complete(&namespaceSelectorController{mgr.GetClient(), selector})
	if err != nil {
		return fmt.Errorf("keep the webhook's namespaces: %w", err)
	}
	return nil
}

// managedChanged passes workloads that begin or cease to be managed, and nothing else.
func (c NamespaceSelector) managedChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return c.isManaged(e.Object) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return c.isManaged(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return c.isManaged(e.ObjectOld) != c.isManaged(e.ObjectNew) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// labelsChanged passes namespaces that may have come into scope or left it. Deleting one deletes its workloads, which are watched.
func labelsChanged() predicate.Predicate {
	return predicate.Funcs{
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) },
	}
}

// Reconcile implements controller-runtime's reconcile.Reconciler.
func (c *namespaceSelectorController) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	config := &admissionv1.MutatingWebhookConfiguration{}
	if err := c.client.Get(ctx, request.NamespacedName, config); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	namespaces, err := c.selector.namespaces(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	desired, changed := withNamespaces(config, namespaces)
	if !changed {
		return reconcile.Result{}, nil
	}
	written, err := patchConfiguration(ctx, c.client, config, desired)
	if written {
		log.FromContext(ctx).Info("updated webhook namespace selector", "namespaces", len(namespaces))
	}
	return reconcile.Result{}, err
}

// withNamespaces limits the spread webhook, if there is one, to these namespaces, and reports whether that changed anything. The rules are
// set together with the namespaces, so that a newly installed configuration does not apply to all namespaces.
func withNamespaces(current *admissionv1.MutatingWebhookConfiguration,
	namespaces []string) (desired *admissionv1.MutatingWebhookConfiguration, changed bool) {
	desired = current.DeepCopy()
	hook := spreadWebhook(desired)
	if hook == nil {
		return desired, false
	}
	hook.Rules, hook.NamespaceSelector = podCreateRules(), selectNamespaces(namespaces)
	return desired, !equality.Semantic.DeepEqual(current, desired)
}

// podCreateRules matches the creation of pods only.
func podCreateRules() []admissionv1.RuleWithOperations {
	return []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
			Scope: new(admissionv1.NamespacedScope)},
	}}
}

// selectNamespaces selects namespaces by name, or none if there are none.
func selectNamespaces(namespaces []string) *metav1.LabelSelector {
	if len(namespaces) == 0 {
		namespaces = []string{noNamespace}
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: namespaces},
	}}
}
