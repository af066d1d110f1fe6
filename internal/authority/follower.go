package authority

import (
	"context"
	"crypto/tls"
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
}

// material is what the last Secret held that was whole. It outlives the Secret: who deletes that by mistake does not cut off agents
// before there is a new one.
type material struct {
	certificate *tls.Certificate
	bundle      string
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

// Bundle is whom agents should trust, in PEM; "" when there is nobody yet.
func (f *Follower) Bundle(ctx context.Context) string { return f.latest(ctx).bundle }

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
		f.known = read
	}
	return f.known
}

// understood takes a Secret as a whole or not at all: a bundle without its certificate would lead agents astray.
func understood(stored Data) (material, bool) {
	certificate, unreadable := tls.X509KeyPair(stored[servingKey], stored[privateKey])
	_, garbled := cert.ParseCertsPEM(stored[bundleKey])
	return material{&certificate, string(stored[bundleKey])}, unreadable == nil && garbled == nil
}
