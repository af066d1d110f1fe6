package admission

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
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

// ConfigurationName is the name of the MutatingWebhookConfiguration that registers the webhooks.
const ConfigurationName = "swarm-operator"

// Cached restricts a cache to this configuration, so that no right to read others is needed.
func Cached() cache.ByObject {
	return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", ConfigurationName)}
}

// A Bundle returns the CAs, in PEM, one of which has signed the webhook's certificate; "" when there is none yet.
type Bundle func(context.Context) string

// farewell is how long the API server trusts a CA that the Secret no longer has. Meanwhile every replica switches to a certificate of
// another CA, which takes heardAfter plus the delay of its cache.
const farewell = 30 * time.Second

// keeper is the leader's part: it keeps the CA bundle in the configuration.
type keeper struct {
	client  client.Client
	bundle  Bundle
	now     func() time.Time
	parting parting
}

// A parting is the grace period of CAs that the API server trusts and the Secret no longer has. A new leader starts it again.
type parting struct {
	from  string // the CAs, in PEM
	since time.Time
}

// Keep adds a controller that keeps the bundle in the configuration, if there is one. The bundle must come from the Secret in the
// manager's cache, which is watched.
func Keep(of manager.Manager, bundle Bundle) error {
	concerned := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: ConfigurationName}}}
	})
	err := builder.ControllerManagedBy(of).Named("admission").
		WatchesRawSource(source.Kind(of.GetCache(), client.Object(&admissionv1.MutatingWebhookConfiguration{}), concerned)).
		WatchesRawSource(source.Kind(of.GetCache(), client.Object(&corev1.Secret{}), concerned)).
		Complete(&keeper{client: of.GetClient(), bundle: bundle, now: time.Now})
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
	if injected(found) {
		return reconcile.Result{}, nil
	}
	bundle := k.bundle(ctx)
	left := k.part(strangers(found, bundle))
	if left > 0 {
		bundle += k.parting.from
	}
	wanted, changed := trusting(found, bundle)
	if !changed {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	written, err := bring(ctx, k.client, found, wanted)
	if written {
		log.FromContext(ctx).Info("the API server knows the webhook by its CA")
	}
	return reconcile.Result{RequeueAfter: left}, err
}

// injected reports whether cert-manager keeps the bundle. It reverts other writes at once, so two writers would never stop: when an
// installation starts to use cert-manager, the leader still has our own certificate until its pod is replaced.
func injected(found *admissionv1.MutatingWebhookConfiguration) bool {
	return slices.ContainsFunc([]string{"inject-ca-from", "inject-ca-from-secret", "inject-apiserver-ca"}, func(name string) bool {
		return found.Annotations["cert-manager.io/"+name] != ""
	})
}

// part returns how long CAs that have to go stay.
func (k *keeper) part(from string) time.Duration {
	if from != k.parting.from {
		k.parting = parting{from, k.now()}
	}
	if from == "" {
		return 0
	}
	return max(0, farewell-k.now().Sub(k.parting.since))
}

// bring patches the configuration, and reports whether it did. After a conflict, the watch brings the new version.
func bring(ctx context.Context, to client.Client, found, wanted *admissionv1.MutatingWebhookConfiguration) (written bool, err error) {
	switch err := to.Patch(ctx, wanted, client.StrategicMergeFrom(found, client.MergeFromWithOptimisticLock{})); {
	case errors.Is(err, kit.ErrNotLeading), errors.Is(err, context.Canceled), apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("patch MutatingWebhookConfiguration %q: %w", ConfigurationName, err)
	}
	return true, nil
}

// trusting returns the configuration with that bundle, and whether that changed anything.
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

// strangers returns the CAs, in PEM, that a webhook trusts and the bundle does not have.
func strangers(found *admissionv1.MutatingWebhookConfiguration, bundle string) string {
	known := authorities([]byte(bundle))
	var text strings.Builder
	for n := range found.Webhooks {
		for _, ca := range authorities(found.Webhooks[n].ClientConfig.CABundle) {
			if bundle != "" && !slices.ContainsFunc(known, ca.Equal) {
				known = append(known, ca)
				_ = pem.Encode(&text, &pem.Block{Type: cert.CertificateBlockType, Bytes: ca.Raw}) // a Builder never fails
			}
		}
	}
	return text.String()
}

// authorities returns the CAs of a bundle, none if it cannot be parsed.
func authorities(bundle []byte) []*x509.Certificate {
	found, _ := cert.ParseCertsPEM(bundle) // fails where there is none
	return found
}
