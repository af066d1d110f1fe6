package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/swarm-io/swarm-operator/kit"
)

// A reconcilerHarness is a reconciler with an in-memory cluster and a stopped clock.
type reconcilerHarness struct {
	*reconciler
	cluster client.WithWatch
	time    time.Time
	leads   int64 // the term
}

func newReconcilerHarness() *reconcilerHarness {
	d := &reconcilerHarness{cluster: fake.NewFakeClient(), time: testStart}
	d.reconciler = &reconciler{
		Options: Options{Namespace: "swarm-system", Names: testNames, Lifetimes: testLifetimes, Term: func() int64 { return d.leads }},
		client:  d.cluster, live: d.cluster, now: func() time.Time { return d.time },
	}
	return d
}

func (d *reconcilerHarness) reconcile(t *testing.T) reconcile.Result {
	t.Helper()
	result, err := d.Reconcile(t.Context(), d.requests()[0])
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func (d *reconcilerHarness) secret(t *testing.T) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := d.cluster.Get(t.Context(), d.key(), secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

func TestLeaderKeepsTheSecret(t *testing.T) {
	d := newReconcilerHarness()
	if again := d.reconcile(t).RequeueAfter; again != time.Hour {
		t.Errorf("looks again after %s: want the longest, for twenty hours are left", again)
	}
	made := d.secret(t)
	if made.Type != corev1.SecretTypeOpaque || len(made.Data) != 5 {
		t.Errorf("type %s with %d keys", made.Type, len(made.Data))
	}
	d.time = testStart.Add(19*time.Hour + 30*time.Minute)
	if again := d.reconcile(t).RequeueAfter; again != 30*time.Minute || d.secret(t).ResourceVersion != made.ResourceVersion {
		t.Errorf("looks again after %s, wrote at version %s", again, d.secret(t).ResourceVersion)
	}
	d.time = testStart.Add(20 * time.Hour)
	d.reconcile(t)
	if renewed := d.secret(t); bytes.Equal(renewed.Data[servingKey], made.Data[servingKey]) || renewed.UID != made.UID {
		t.Error("the certificate was not renewed in place")
	}
	if err := d.cluster.Delete(t.Context(), d.secret(t)); err != nil {
		t.Fatal(err)
	}
	d.reconcile(t)
	if bytes.Equal(d.secret(t).Data[signerKey], made.Data[signerKey]) {
		t.Error("a deleted CA came back")
	}
}

// A failedWrite is how the API server answers a write, when the reconciler then tries again, and whether it returns the error.
type failedWrite struct {
	reason string
	answer error
	again  time.Duration
	told   bool
}

func (d *reconcilerHarness) expectOutcome(t *testing.T, c failedWrite) {
	t.Helper()
	result, err := d.Reconcile(t.Context(), d.requests()[0])
	if (err != nil) != c.told || result.RequeueAfter != c.again {
		t.Errorf("again after %s: %v", result.RequeueAfter, err)
	}
}

func TestFailedWriteOfTheSecret(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for _, c := range []failedWrite{
		{"another leader was first", apierrors.NewAlreadyExists(secrets, SecretName), time.Second, false},
		{"another client wrote in between", apierrors.NewConflict(secrets, SecretName, errors.New("stale")), time.Second, false},
		{"we lead no more", kit.ErrNotLeading, 0, false},
		{"there is no such namespace", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "swarm-system"), 0, true},
		{"we may not", apierrors.NewForbidden(secrets, SecretName, errors.New("no rule")), 0, true},
	} {
		t.Run(c.reason, func(t *testing.T) {
			d := newReconcilerHarness()
			d.client = interceptor.NewClient(d.cluster, interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return c.answer },
			})
			d.expectOutcome(t, c)
		})
	}
}

func TestReplicasReadTheSecret(t *testing.T) {
	d := newReconcilerHarness()
	follower := NewReader(d.cluster, "swarm-system")
	if _, err := follower.Certificate(&tls.ClientHelloInfo{}); !errors.Is(err, errNoCertificate) || follower.Bundle(t.Context()) != "" {
		t.Errorf("before there is one: %v", err)
	}
	d.reconcile(t)
	first := servingLeaf(t, follower, d)
	d.time = testStart.Add(20 * time.Hour)
	d.reconcile(t)
	if second := servingLeaf(t, follower, d); bytes.Equal(first.Certificate[0], second.Certificate[0]) {
		t.Error("the old certificate is shown")
	}
	good := d.secret(t)
	broken := good.DeepCopy()
	broken.Data[privateKey] = []byte("garbage")
	if err := d.cluster.Update(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	if kept, err := follower.Certificate(&tls.ClientHelloInfo{}); err != nil || kept.Leaf == nil ||
		follower.Bundle(t.Context()) != string(good.Data[bundleKey]) {
		t.Errorf("the last one that was whole is not kept: %v", err)
	}
	if err := d.cluster.Delete(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	if _, err := follower.Certificate(&tls.ClientHelloInfo{}); err != nil {
		t.Error("cut off though there is no new one yet:", err)
	}
}

func TestReplicasCallEachOther(t *testing.T) {
	d := newReconcilerHarness()
	caller, called := NewReader(d.cluster, "swarm-system"), NewReader(d.cluster, "swarm-system")
	if _, err := caller.ClientConfig(t.Context(), serverName); !errors.Is(err, errNoCertificate) ||
		!called.Pool(t.Context()).Equal(x509.NewCertPool()) {
		t.Errorf("before there is one: %v", err)
	}
	d.reconcile(t)
	config, err := caller.ClientConfig(t.Context(), serverName)
	if err != nil {
		t.Fatal(err)
	}
	if !config.RootCAs.Equal(called.Pool(t.Context())) || !config.Certificates[0].Leaf.Equal(servingCertificate(t, d.secret(t).Data)) {
		t.Error("calls with something else than the Secret holds")
	}
	config.Time = func() time.Time { return d.time }
	if err := handshake(t, config, &tls.Config{
		MinVersion: tls.VersionTLS13, GetCertificate: called.Certificate,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: called.Pool(t.Context()), Time: config.Time,
	}); err != nil {
		t.Error(err)
	}
}

// handshake performs a handshake between a client and a server.
func handshake(t *testing.T, client, server *tls.Config) error {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	answered := make(chan error, 1)
	go func() {
		defer far.Close()
		answered <- tls.Server(far, server).HandshakeContext(t.Context())
	}()
	called := tls.Client(near, client).HandshakeContext(t.Context())
	go func() { _, _ = io.Copy(io.Discard, near) }() // or the server's last message has no reader
	return errors.Join(called, <-answered)
}

// servingLeaf returns the certificate that a replica serves, and checks that it is the one in the Secret.
func servingLeaf(t *testing.T, follower *Reader, d *reconcilerHarness) *tls.Certificate {
	t.Helper()
	certificate, err := follower.Certificate(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	stored := d.secret(t).Data
	if follower.Bundle(t.Context()) != string(stored[bundleKey]) {
		t.Error("the bundle is another")
	}
	if !servingCertificate(t, stored).Equal(certificate.Leaf) {
		t.Error("the certificate is another")
	}
	return certificate
}

// Connections made with the former certificate are still accepted.
func TestPreviousCertificateIsKept(t *testing.T) {
	d := newReconcilerHarness()
	follower := NewReader(d.cluster, "swarm-system")
	if latest, former := follower.Certificates(t.Context()); latest != nil || former != nil {
		t.Errorf("before there is one: %v, %v", latest, former)
	}
	d.reconcile(t)
	first := servingLeaf(t, follower, d)
	if latest, former := follower.Certificates(t.Context()); latest != first || former != nil {
		t.Errorf("the first has a predecessor: %v", former)
	}
	touched := d.secret(t)
	touched.Annotations = map[string]string{"touched": "by hand"}
	if err := d.cluster.Update(t.Context(), touched); err != nil {
		t.Fatal(err)
	}
	if _, former := follower.Certificates(t.Context()); former != nil {
		t.Error("the same certificate was taken for another")
	}
	d.time = testStart.Add(20 * time.Hour)
	d.reconcile(t)
	latest, former := follower.Certificates(t.Context())
	if former == nil || !former.Leaf.Equal(first.Leaf) || latest.Leaf.Equal(first.Leaf) {
		t.Errorf("former %v", former)
	}
}

// There is no event for a Secret that does not exist.
func TestFirstReconcileNeedsNoEvent(t *testing.T) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	d := newReconcilerHarness()
	if err := d.enqueueFirst(t.Context(), queue); err != nil || queue.Len() != 1 {
		t.Fatalf("%d queued, %v", queue.Len(), err)
	}
	if request, _ := queue.Get(); request.NamespacedName != d.key() {
		t.Errorf("queued %v", request)
	}
}

// A Secret that cannot be read may exist: another CA would cut all agents off.
func TestSecretThatCannotBeReadIsNotReplaced(t *testing.T) {
	d := newReconcilerHarness()
	d.reconcile(t)
	before := d.secret(t)
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, SecretName, errors.New("no rule"))
	d.client = interceptor.NewClient(d.cluster, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return refused
		},
	})
	if _, err := d.Reconcile(t.Context(), d.requests()[0]); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
	if after := d.secret(t); after.ResourceVersion != before.ResourceVersion {
		t.Error("the Secret was written")
	}
}
