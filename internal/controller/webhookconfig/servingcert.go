package webhookconfig

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// caPropagationDelay is how long it may take until every API server has observed a CA that we have observed.
const caPropagationDelay = 5 * time.Second

// Certificates returns the stored certificate and the one before it, if this replica has seen that.
type Certificates func(context.Context) (latest, former *tls.Certificate)

// A ServingCert selects the webhook's certificate: the latest that the API server can trust. When everything is created again, for example
// because the Secret was deleted, the API server still calls before it knows the new CA. It is safe for concurrent use.
type ServingCert struct {
	certificates Certificates
	now          func() time.Time

	lock    sync.Mutex
	trusted []trustedCA
}

// A trustedCA is a CA that the API server trusts, as far as we have observed.
type trustedCA struct {
	ca    *x509.Certificate
	since time.Time
}

// NewServingCert returns a ServingCert that shows the stored certificate until it has observed which CAs the API server trusts.
func NewServingCert(certificates Certificates) *ServingCert {
	return &ServingCert{certificates: certificates, now: time.Now}
}

// Watch observes which CAs the API server trusts, and every certificate that is stored.
func (f *ServingCert) Watch(ctx context.Context, informers cache.Informers) error {
	return errors.Join(
		watch(ctx, informers, &admissionv1.MutatingWebhookConfiguration{}, f.observeTrusted,
			func() { f.observeTrusted(&admissionv1.MutatingWebhookConfiguration{}) }),
		watch(ctx, informers, &corev1.Secret{}, func(*corev1.Secret) { f.certificates(ctx) }, func() {}),
	)
}

func watch[T client.Object](ctx context.Context, informers cache.Informers, kind T, changed func(T), deleted func()) error {
	notify := func(object any) {
		if obj, ok := object.(T); ok {
			changed(obj)
		}
	}
	informer, err := informers.GetInformer(ctx, kind)
	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: notify, UpdateFunc: func(_, object any) { notify(object) }, DeleteFunc: func(any) { deleted() },
		})
	}
	if err != nil {
		return fmt.Errorf("follow %T: %w", kind, err)
	}
	return nil
}

// Certificate is for tls.Config.GetCertificate.
func (f *ServingCert) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	latest, previous := f.certificates(hello.Context())
	switch {
	case latest == nil:
		return nil, errors.New("no certificate yet")
	case previous == nil || f.isTrustedFor(latest, caPropagationDelay) || !f.isTrustedFor(previous, 0):
		return latest, nil
	default:
		return previous, nil
	}
}

// isTrustedFor reports whether the API server has trusted a certificate for that long.
func (f *ServingCert) isTrustedFor(shown *tls.Certificate, period time.Duration) bool {
	f.lock.Lock()
	defer f.lock.Unlock()
	now := f.now()
	return now.Before(shown.Leaf.NotAfter) && slices.ContainsFunc(f.trusted, func(a trustedCA) bool {
		return now.Sub(a.since) >= period && shown.Leaf.CheckSignatureFrom(a.ca) == nil
	})
}

// observeTrusted records which CAs are trusted at every webhook, and since when.
func (f *ServingCert) observeTrusted(config *admissionv1.MutatingWebhookConfiguration) {
	f.lock.Lock()
	defer f.lock.Unlock()
	var trusted []trustedCA
	for _, ca := range commonCAs(config) {
		since := f.now()
		if n := slices.IndexFunc(f.trusted, func(a trustedCA) bool { return a.ca.Equal(ca) }); n >= 0 {
			since = f.trusted[n].since
		}
		trusted = append(trusted, trustedCA{ca, since})
	}
	f.trusted = trusted
}

// commonCAs returns the CAs in the bundles of all webhooks of a configuration.
func commonCAs(config *admissionv1.MutatingWebhookConfiguration) []*x509.Certificate {
	var common []*x509.Certificate
	for n := range config.Webhooks {
		cas := parseCAs(config.Webhooks[n].ClientConfig.CABundle)
		if n == 0 {
			common = cas
		}
		common = slices.DeleteFunc(common, func(ca *x509.Certificate) bool { return !slices.ContainsFunc(cas, ca.Equal) })
	}
	return common
}
