package admission

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

// coverer is the leader's part: it limits the spread webhook to the right namespaces.
type coverer struct {
	client   client.Client
	coverage Coverage
}

// Cover adds a controller that keeps the namespaces of the spread webhook in the configuration.
func Cover(of manager.Manager, coverage Coverage) error {
	concerned := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: ConfigurationName}}}
	})
	managed := coverage.turns()
	err := builder.ControllerManagedBy(of).Named("coverage").
		WatchesRawSource(source.Kind(of.GetCache(), client.Object(&admissionv1.MutatingWebhookConfiguration{}), concerned)).
		WatchesRawSource(source.Kind(of.GetCache(), client.Object(&appsv1.Deployment{}), concerned, managed)).
		WatchesRawSource(source.Kind(of.GetCache(), client.Object(&appsv1.StatefulSet{}), concerned, managed)).
		WatchesRawSource(source.Kind(of.GetCache(), client.Object(&corev1.Namespace{}), concerned, relabelled())).
		Complete(&coverer{of.GetClient(), coverage})
	if err != nil {
		return fmt.Errorf("keep the webhook's namespaces: %w", err)
	}
	return nil
}

// turns passes workloads that begin or cease to be managed, and nothing else.
func (c Coverage) turns() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return c.manages(e.Object) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return c.manages(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return c.manages(e.ObjectOld) != c.manages(e.ObjectNew) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// relabelled passes namespaces that may have come into scope or left it. Deleting one deletes its workloads, which are watched.
func relabelled() predicate.Predicate {
	return predicate.Funcs{
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) },
	}
}

// Reconcile implements controller-runtime's reconcile.Reconciler.
func (c *coverer) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	found := &admissionv1.MutatingWebhookConfiguration{}
	if err := c.client.Get(ctx, request.NamespacedName, found); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	namespaces, err := c.coverage.namespaces(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	wanted, changed := asking(found, namespaces)
	if !changed {
		return reconcile.Result{}, nil
	}
	written, err := bring(ctx, c.client, found, wanted)
	if written {
		log.FromContext(ctx).Info("the API server asks where pods go", "namespaces", len(namespaces))
	}
	return reconcile.Result{}, err
}

// asking limits the spread webhook, if there is one, to these namespaces, and reports whether that changed anything. The rules are set
// together with the namespaces, so that a newly installed configuration does not apply to all namespaces.
func asking(found *admissionv1.MutatingWebhookConfiguration, namespaces []string) (wanted *admissionv1.MutatingWebhookConfiguration, changed bool) {
	wanted = found.DeepCopy()
	hook := spreadOf(wanted)
	if hook == nil {
		return wanted, false
	}
	hook.Rules, hook.NamespaceSelector = aboutPods(), among(namespaces)
	return wanted, !equality.Semantic.DeepEqual(found, wanted)
}

// aboutPods matches the creation of pods only.
func aboutPods() []admissionv1.RuleWithOperations {
	return []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: new(admissionv1.NamespacedScope)},
	}}
}

// among selects namespaces by name, or none if there are none.
func among(namespaces []string) *metav1.LabelSelector {
	if len(namespaces) == 0 {
		namespaces = []string{nowhere}
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: namespaces},
	}}
}
