package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cached restricts a cache to this Secret, so that no right to read others is needed.
func Cached(namespace string) cache.ByObject {
	only := fields.OneTermEqualSelector("metadata.name", SecretName)
	return cache.ByObject{Namespaces: map[string]cache.Config{namespace: {FieldSelector: only}}}
}

var errNoCertificate = errors.New("no certificate yet")

// A Reader reads the Secret on any replica. It reads the cache at every call and does not wait for its events: after an event,
// callers must find the change here.
type Reader struct {
	secrets client.Reader
	key     types.NamespacedName

	lock     sync.Mutex
	version  string
	current  parsedSecret
	previous *tls.Certificate // the one shown before
}

// parsedSecret is from the last Secret that was complete. It outlives the Secret: deleting that by mistake does not cut off agents before
// there is a new one.
type parsedSecret struct {
	certificate *tls.Certificate
	bundle      string
	pool        *x509.CertPool // the same as bundle
	termKey     []byte         // nil before a leader of this version has created it
}

// NewReader reads the Secret through a cache.
func NewReader(secrets client.Reader, namespace string) *Reader {
	return &Reader{secrets: secrets, key: types.NamespacedName{Namespace: namespace, Name: SecretName}}
}

// Certificate implements link.Certificates.
func (f *Reader) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	current := f.latest(hello.Context())
	if current.certificate == nil {
		return nil, errNoCertificate
	}
	return current.certificate, nil
}

// Certificates returns what Certificate shows, and what it showed before, if this process has.
func (f *Reader) Certificates(ctx context.Context) (latest, previous *tls.Certificate) {
	current := f.latest(ctx)
	f.lock.Lock()
	defer f.lock.Unlock()
	return current.certificate, f.previous
}

// Bundle returns the CAs that agents should trust, in PEM; "" while there is none.
func (f *Reader) Bundle(ctx context.Context) string { return f.latest(ctx).bundle }

// Pool returns the CAs that replicas should trust; it is empty while there is none.
func (f *Reader) Pool(ctx context.Context) *x509.CertPool {
	if current := f.latest(ctx); current.pool != nil {
		return current.pool
	}
	return x509.NewCertPool()
}

// ClientConfig returns the TLS configuration for calling another replica, whose certificate is valid for that name. It may change: get it
// again for each connection.
func (f *Reader) ClientConfig(ctx context.Context, serverName string) (*tls.Config, error) {
	current := f.latest(ctx)
	if current.certificate == nil {
		return nil, errNoCertificate
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: current.pool, Certificates: []tls.Certificate{*current.certificate},
		ServerName: serverName}, nil
}

func (f *Reader) latest(ctx context.Context) parsedSecret {
	secret := &corev1.Secret{}
	err := f.secrets.Get(ctx, f.key, secret)
	f.lock.Lock()
	defer f.lock.Unlock()
	if err != nil || secret.ResourceVersion == f.version {
		return f.current
	}
	f.version = secret.ResourceVersion
	if parsed, ok := parseSecret(secret.Data); ok {
		if shown := f.current.certificate; shown != nil && !shown.Leaf.Equal(parsed.certificate.Leaf) {
			f.previous = shown
		}
		f.current = parsed
	}
	return f.current
}

// parseSecret parses a Secret as a whole or not at all: a bundle that does not match the certificate would break agents.
func parseSecret(stored Data) (parsedSecret, bool) {
	certificate, keyErr := tls.X509KeyPair(stored[servingKey], stored[privateKey])
	pool, poolErr := cert.NewPoolFromBytes(stored[bundleKey])
	return parsedSecret{&certificate, string(stored[bundleKey]), pool, parseState(stored).termKey}, keyErr == nil && poolErr == nil
}
