package authority

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

// A Follower reads the Secret on any replica. It reads the cache at every call and does not wait for its events: after an event,
// callers must find the change here.
type Follower struct {
	secrets client.Reader
	key     types.NamespacedName

	lock    sync.Mutex
	version string
	known   material
	former  *tls.Certificate // the one shown before
}

// material is from the last Secret that was complete. It outlives the Secret: deleting that by mistake does not cut off agents before
// there is a new one.
type material struct {
	certificate *tls.Certificate
	bundle      string
	pool        *x509.CertPool // the same as bundle
	termKey     []byte         // nil before a leader of this version has created it
}

// Follow reads the Secret through a cache.
func Follow(secrets client.Reader, namespace string) *Follower {
	return &Follower{secrets: secrets, key: types.NamespacedName{Namespace: namespace, Name: SecretName}}
}

// Certificate implements link.Certificates.
func (f *Follower) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	known := f.latest(hello.Context())
	if known.certificate == nil {
		return nil, errNoCertificate
	}
	return known.certificate, nil
}

// Certificates returns what Certificate shows, and what it showed before, if this process has.
func (f *Follower) Certificates(ctx context.Context) (latest, former *tls.Certificate) {
	known := f.latest(ctx)
	f.lock.Lock()
	defer f.lock.Unlock()
	return known.certificate, f.former
}

// Bundle returns the CAs that agents should trust, in PEM; "" while there is none.
func (f *Follower) Bundle(ctx context.Context) string { return f.latest(ctx).bundle }

// Pool returns the CAs that replicas should trust; it is empty while there is none.
func (f *Follower) Pool(ctx context.Context) *x509.CertPool {
	if known := f.latest(ctx); known.pool != nil {
		return known.pool
	}
	return x509.NewCertPool()
}

// Client returns the TLS configuration for calling another replica, whose certificate is valid for that name. It may change: get it
// again for each connection.
func (f *Follower) Client(ctx context.Context, serverName string) (*tls.Config, error) {
	known := f.latest(ctx)
	if known.certificate == nil {
		return nil, errNoCertificate
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: known.pool, Certificates: []tls.Certificate{*known.certificate}, ServerName: serverName}, nil
}

func (f *Follower) latest(ctx context.Context) material {
	secret := &corev1.Secret{}
	err := f.secrets.Get(ctx, f.key, secret)
	f.lock.Lock()
	defer f.lock.Unlock()
	if err != nil || secret.ResourceVersion == f.version {
		return f.known
	}
	f.version = secret.ResourceVersion
	if read, ok := understood(secret.Data); ok {
		if known := f.known.certificate; known != nil && !known.Leaf.Equal(read.certificate.Leaf) {
			f.former = known
		}
		f.known = read
	}
	return f.known
}

// understood parses a Secret as a whole or not at all: a bundle that does not match the certificate would break agents.
func understood(stored Data) (material, bool) {
	certificate, unreadable := tls.X509KeyPair(stored[servingKey], stored[privateKey])
	pool, garbled := cert.NewPoolFromBytes(stored[bundleKey])
	return material{&certificate, string(stored[bundleKey]), pool, read(stored).termKey}, unreadable == nil && garbled == nil
}
