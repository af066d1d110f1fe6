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

// ConfigurationName is that of the MutatingWebhookConfiguration by which the API server comes to ask.
const ConfigurationName = "swarm-operator"

// Cached is what a cache should hold of configurations: this one and no other, so that no right to read others is needed.
func Cached() cache.ByObject {
	return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", ConfigurationName)}
}

// A Bundle is the CAs, in PEM, one of which has signed what the webhook shows; "" when there is none yet.
type Bundle func(context.Context) string

// farewell is how long the API server trusts a CA that the Secret has no more. Meanwhile every replica comes to show what another CA has
// signed: it needs heardAfter for that, and its cache.
const farewell = 30 * time.Second

// keeper is the leader's part: it has the API server know the webhook.
type keeper struct {
	client  client.Client
	bundle  Bundle
	now     func() time.Time
	parting parting
}

// A parting is from CAs that the API server trusts and the Secret has no more. Whoever leads next begins it anew.
type parting struct {
	from  string // the CAs, in PEM
	since time.Time
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

// injected tells whether cert-manager keeps the bundle. Then it is written at once when somebody else has, and two who do so never rest: when
// an installation comes to use cert-manager, whoever leads still has a certificate of our own until it is replaced.
func injected(found *admissionv1.MutatingWebhookConfiguration) bool {
	return slices.ContainsFunc([]string{"inject-ca-from", "inject-ca-from-secret", "inject-apiserver-ca"}, func(name string) bool {
		return found.Annotations["cert-manager.io/"+name] != ""
	})
}

// part is how long CAs stay that have to go.
func (k *keeper) part(from string) time.Duration {
	if from != k.parting.from {
		k.parting = parting{from, k.now()}
	}
	if from == "" {
		return 0
	}
	return max(0, farewell-k.now().Sub(k.parting.since))
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

// strangers are the CAs that a webhook trusts and the bundle has not, in PEM.
func strangers(found *admissionv1.MutatingWebhookConfiguration, bundle string) string {
	known := authorities([]byte(bundle))
	var text strings.Builder
	for n := range found.Webhooks {
		for _, ca := range authorities(found.Webhooks[n].ClientConfig.CABundle) {
			if bundle != "" && !slices.ContainsFunc(known, ca.Equal) {
				known = append(known, ca)
				_ = pem.Encode(&text, &pem.Block{Type: cert.CertificateBlockType, Bytes: ca.Raw}) // a Builder takes everything
			}
		}
	}
	return text.String()
}

// authorities are those of a bundle, none when it cannot be read.
func authorities(bundle []byte) []*x509.Certificate {
	found, _ := cert.ParseCertsPEM(bundle) // fails where there is none
	return found
}
