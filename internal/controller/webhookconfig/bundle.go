// Package webhookconfig keeps the MutatingWebhookConfiguration of the operator current.
//
// It promises that the configuration has the current CA bundle, and that it covers pods of spread workloads in exactly the namespaces
// that have one. The leader reverts other changes to both. It creates the configuration only for an operator outside of the cluster
// (Registration), and never replaces the one of an installation.
package webhookconfig

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

// caOverlapPeriod is how long the API server trusts a CA that the Secret no longer has. Meanwhile every replica switches to a certificate
// of another CA, which takes caPropagationDelay plus the delay of its cache.
const caOverlapPeriod = 30 * time.Second

// caBundleController is the leader's part: it keeps the CA bundle in the configuration.
type caBundleController struct {
	client  client.Client
	bundle  Bundle
	now     func() time.Time
	overlap caOverlap
}

// A caOverlap is the grace period of CAs that the API server trusts and the Secret no longer has. A new leader starts it again.
type caOverlap struct {
	retired string // the CAs, in PEM
	since   time.Time
}

// AddCABundleController adds a controller that keeps the bundle in the configuration, if there is one. The bundle must come from the Secret
// in the manager's cache, which is watched.
func AddCABundleController(mgr manager.Manager, bundle Bundle) error {
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: ConfigurationName}}}
	})
	err := builder.ControllerManagedBy(mgr).Named("admission").
		WatchesRawSource(source.Kind(mgr.GetCache(), client.Object(&admissionv1.MutatingWebhookConfiguration{}), enqueue)).
		WatchesRawSource(source.Kind(mgr.GetCache(), client.Object(&corev1.Secret{}), enqueue)).
		Complete(&caBundleController{client: mgr.GetClient(), bundle: bundle, now: time.Now})
	if err != nil {
		return fmt.Errorf("keep the webhook's CA: %w", err)
	}
	return nil
}

// Reconcile implements controller-runtime's reconcile.Reconciler.
func (k *caBundleController) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	config := &admissionv1.MutatingWebhookConfiguration{}
	if err := k.client.Get(ctx, request.NamespacedName, config); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if isManagedByCertManager(config) {
		return reconcile.Result{}, nil
	}
	bundle := k.bundle(ctx)
	remaining := k.remainingOverlap(retiredCAs(config, bundle))
	if remaining > 0 {
		bundle += k.overlap.retired
	}
	desired, changed := withCABundle(config, bundle)
	if !changed {
		return reconcile.Result{RequeueAfter: remaining}, nil
	}
	written, err := patchConfiguration(ctx, k.client, config, desired)
	if written {
		log.FromContext(ctx).Info("updated webhook CA bundle")
	}
	return reconcile.Result{RequeueAfter: remaining}, err
}

// isManagedByCertManager reports whether cert-manager keeps the bundle. It reverts other writes at once, so two writers would never stop:
// when an installation starts to use cert-manager, the leader still has our own certificate until its pod is replaced.
func isManagedByCertManager(config *admissionv1.MutatingWebhookConfiguration) bool {
	return slices.ContainsFunc([]string{"inject-ca-from", "inject-ca-from-secret", "inject-apiserver-ca"}, func(name string) bool {
		return config.Annotations["cert-manager.io/"+name] != ""
	})
}

// remainingOverlap returns how long CAs that have to go stay.
func (k *caBundleController) remainingOverlap(retired string) time.Duration {
	if retired != k.overlap.retired {
		k.overlap = caOverlap{retired, k.now()}
	}
	if retired == "" {
		return 0
	}
	return max(0, caOverlapPeriod-k.now().Sub(k.overlap.since))
}

// patchConfiguration patches the configuration, and reports whether it did. After a conflict, the watch brings the new version.
func patchConfiguration(ctx context.Context, c client.Client, current, desired *admissionv1.MutatingWebhookConfiguration) (written bool,
	err error) {
	switch err := c.Patch(ctx, desired, client.StrategicMergeFrom(current, client.MergeFromWithOptimisticLock{})); {
	case errors.Is(err, kit.ErrNotLeading), errors.Is(err, context.Canceled), apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("patch MutatingWebhookConfiguration %q: %w", ConfigurationName, err)
	}
	return true, nil
}

// withCABundle returns the configuration with that bundle, and whether that changed anything.
func withCABundle(current *admissionv1.MutatingWebhookConfiguration, bundle string) (desired *admissionv1.MutatingWebhookConfiguration,
	changed bool) {
	desired = current.DeepCopy()
	for n := range desired.Webhooks {
		clientConfig := &desired.Webhooks[n].ClientConfig
		if bundle != "" && !bytes.Equal(clientConfig.CABundle, []byte(bundle)) {
			clientConfig.CABundle, changed = []byte(bundle), true
		}
	}
	return desired, changed
}

// retiredCAs returns the CAs, in PEM, that a webhook trusts and the bundle does not have.
func retiredCAs(config *admissionv1.MutatingWebhookConfiguration, bundle string) string {
	cas := parseCAs([]byte(bundle))
	var text strings.Builder
	for n := range config.Webhooks {
		for _, ca := range parseCAs(config.Webhooks[n].ClientConfig.CABundle) {
			if bundle != "" && !slices.ContainsFunc(cas, ca.Equal) {
				cas = append(cas, ca)
				_ = pem.Encode(&text, &pem.Block{Type: cert.CertificateBlockType, Bytes: ca.Raw}) // a Builder never fails
			}
		}
	}
	return text.String()
}

// parseCAs returns the CAs of a bundle, none if it cannot be parsed.
func parseCAs(bundle []byte) []*x509.Certificate {
	cas, _ := cert.ParseCertsPEM(bundle) // fails where there is none
	return cas
}
