package admission

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

// heardAfter is how long it may take until every API server has observed a CA that we have observed.
const heardAfter = 5 * time.Second

// Certificates returns the stored certificate and the one before it, if this replica has seen that.
type Certificates func(context.Context) (latest, former *tls.Certificate)

// A Face selects the webhook's certificate: the latest that the API server can trust. When everything is created again, for example
// because the Secret was deleted, the API server still calls before it knows the new CA. It is safe for concurrent use.
type Face struct {
	certificates Certificates
	now          func() time.Time

	lock    sync.Mutex
	trusted []acquaintance
}

// An acquaintance is a CA that the API server trusts, as far as we have observed.
type acquaintance struct {
	ca    *x509.Certificate
	since time.Time
}

// NewFace returns a Face that shows the stored certificate until it has observed which CAs the API server trusts.
func NewFace(certificates Certificates) *Face {
	return &Face{certificates: certificates, now: time.Now}
}

// Follow observes which CAs the API server trusts, and every certificate that is stored.
func (f *Face) Follow(ctx context.Context, informers cache.Informers) error {
	return errors.Join(
		follow(ctx, informers, &admissionv1.MutatingWebhookConfiguration{}, f.hear, func() { f.hear(&admissionv1.MutatingWebhookConfiguration{}) }),
		follow(ctx, informers, &corev1.Secret{}, func(*corev1.Secret) { f.certificates(ctx) }, func() {}),
	)
}

func follow[T client.Object](ctx context.Context, informers cache.Informers, kind T, changed func(T), deleted func()) error {
	tell := func(object any) {
		if found, is := object.(T); is {
			changed(found)
		}
	}
	informer, err := informers.GetInformer(ctx, kind)
	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: tell, UpdateFunc: func(_, object any) { tell(object) }, DeleteFunc: func(any) { deleted() },
		})
	}
	if err != nil {
		return fmt.Errorf("follow %T: %w", kind, err)
	}
	return nil
}

// Certificate is for tls.Config.GetCertificate.
func (f *Face) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	latest, former := f.certificates(hello.Context())
	switch {
	case latest == nil:
		return nil, errors.New("no certificate yet")
	case former == nil || f.known(latest, heardAfter) || !f.known(former, 0):
		return latest, nil
	default:
		return former, nil
	}
}

// known reports whether the API server has trusted a certificate for that long.
func (f *Face) known(shown *tls.Certificate, since time.Duration) bool {
	f.lock.Lock()
	defer f.lock.Unlock()
	now := f.now()
	return now.Before(shown.Leaf.NotAfter) && slices.ContainsFunc(f.trusted, func(a acquaintance) bool {
		return now.Sub(a.since) >= since && shown.Leaf.CheckSignatureFrom(a.ca) == nil
	})
}

// hear records which CAs are trusted at every webhook, and since when.
func (f *Face) hear(found *admissionv1.MutatingWebhookConfiguration) {
	f.lock.Lock()
	defer f.lock.Unlock()
	var trusted []acquaintance
	for _, ca := range trustedBy(found) {
		since := f.now()
		if n := slices.IndexFunc(f.trusted, func(a acquaintance) bool { return a.ca.Equal(ca) }); n >= 0 {
			since = f.trusted[n].since
		}
		trusted = append(trusted, acquaintance{ca, since})
	}
	f.trusted = trusted
}

// trustedBy returns the CAs in the bundles of all webhooks of a configuration.
func trustedBy(found *admissionv1.MutatingWebhookConfiguration) []*x509.Certificate {
	var all []*x509.Certificate
	for n := range found.Webhooks {
		here := authorities(found.Webhooks[n].ClientConfig.CABundle)
		if n == 0 {
			all = here
		}
		all = slices.DeleteFunc(all, func(ca *x509.Certificate) bool { return !slices.ContainsFunc(here, ca.Equal) })
	}
	return all
}
