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

// Cached is what a cache should hold of Secrets: this one and no other, so that no right to read others is needed.
func Cached(namespace string) cache.ByObject {
	only := fields.OneTermEqualSelector("metadata.name", SecretName)
	return cache.ByObject{Namespaces: map[string]cache.Config{namespace: {FieldSelector: only}}}
}

var errNoCertificate = errors.New("no certificate yet")

// A Follower knows what the Secret says, on any replica. It asks the cache at every call and not the cache's events: whoever was
// woken by an event must find here what woke it.
type Follower struct {
	secrets client.Reader
	key     types.NamespacedName

	lock    sync.Mutex
	version string
	known   material
	former  *tls.Certificate // what was shown before
}

// material is what the last Secret held that was whole. It outlives the Secret: who deletes that by mistake does not cut off agents
// before there is a new one.
type material struct {
	certificate *tls.Certificate
	bundle      string
	pool        *x509.CertPool // the same as bundle
	termKey     []byte         // nil before the leader of this version has made it
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

// Certificates are what Certificate shows, and what it showed before, if this process has.
func (f *Follower) Certificates(ctx context.Context) (latest, former *tls.Certificate) {
	known := f.latest(ctx)
	f.lock.Lock()
	defer f.lock.Unlock()
	return known.certificate, f.former
}

// Bundle is whom agents should trust, in PEM; "" when there is nobody yet.
func (f *Follower) Bundle(ctx context.Context) string { return f.latest(ctx).bundle }

// Pool is whom replicas should trust: nobody, when there is no CA yet.
func (f *Follower) Pool(ctx context.Context) *x509.CertPool {
	if known := f.latest(ctx); known.pool != nil {
		return known.pool
	}
	return x509.NewCertPool()
}

// Client is how one replica calls another, whose certificate is good for that name. It is of the moment: ask again for each connection.
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

// understood takes a Secret as a whole or not at all: a bundle without its certificate would lead agents astray.
func understood(stored Data) (material, bool) {
	certificate, unreadable := tls.X509KeyPair(stored[servingKey], stored[privateKey])
	pool, garbled := cert.NewPoolFromBytes(stored[bundleKey])
	return material{&certificate, string(stored[bundleKey]), pool, read(stored).termKey}, unreadable == nil && garbled == nil
}
