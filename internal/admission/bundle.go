package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/swarm-io/swarm-operator/kit"
)

// ConfigurationName is that of the MutatingWebhookConfiguration by which the API server comes to ask.
const ConfigurationName = "swarm-operator"

// Cached is what a cache should hold of configurations: this one and no other, so that no right to read others is needed.
func Cached() cache.ByObject {
	return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", ConfigurationName)}
}

// A Bundle is the CAs, in PEM, one of which has signed what the webhook shows; "" when there is none yet.
type Bundle func(context.Context) string

// keeper is the leader's part: it has the API server know the webhook.
type keeper struct {
	client client.Client
	bundle Bundle
}

// Keep makes whoever leads keep the bundle in the configuration, if there is one. The bundle must come from the Secret that the manager's
// cache holds, whose changes are followed.
func Keep(of manager.Manager, bundle Bundle) error {
	concerned := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: ConfigurationName}}}
	})
	err := builder.ControllerManagedBy(of).Named("admission").
		WatchesRawSource(source.Kind(of.GetCache(), client.Object(&admissionv1.MutatingWebhookConfiguration{}), concerned)).
		WatchesRawSource(source.Kind(of.GetCache(), client.Object(&corev1.Secret{}), concerned)).
		Complete(&keeper{of.GetClient(), bundle})
	if err != nil {
		return fmt.Errorf("keep the webhook's CA: %w", err)
	}
	return nil
}

// Reconcile implements controller-runtime's reconcile.Reconciler.
func (k *keeper) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	found := &admissionv1.MutatingWebhookConfiguration{}
	if err := k.client.Get(ctx, request.NamespacedName, found); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	wanted, changed := trusting(found, k.bundle(ctx))
	if !changed {
		return reconcile.Result{}, nil
	}
	written, err := bring(ctx, k.client, found, wanted)
	if written {
		log.FromContext(ctx).Info("the API server knows the webhook by its CA")
	}
	return reconcile.Result{}, err
}

// bring turns the configuration that was found into the one that is wanted, and tells whether it did: what somebody else wrote meanwhile
// comes by the watch.
func bring(ctx context.Context, to client.Client, found, wanted *admissionv1.MutatingWebhookConfiguration) (written bool, err error) {
	switch err := to.Patch(ctx, wanted, client.StrategicMergeFrom(found, client.MergeFromWithOptimisticLock{})); {
	case errors.Is(err, kit.ErrNotLeading), errors.Is(err, context.Canceled), apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("patch MutatingWebhookConfiguration %q: %w", ConfigurationName, err)
	}
	return true, nil
}

// trusting is the configuration with that bundle, and whether it is another one then.
func trusting(found *admissionv1.MutatingWebhookConfiguration, bundle string) (wanted *admissionv1.MutatingWebhookConfiguration, changed bool) {
	wanted = found.DeepCopy()
	for n := range wanted.Webhooks {
		config := &wanted.Webhooks[n].ClientConfig
		if bundle != "" && !bytes.Equal(config.CABundle, []byte(bundle)) {
			config.CABundle, changed = []byte(bundle), true
		}
	}
	return wanted, changed
}
