package operator

import (
	"context"
	"fmt"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/swarm-io/swarm-operator/internal/link"
)

// reviews asks the API server about tokens. It has connections of its own, which do not end with leadership: a standby must know an
// agent before it tells it where the leader is. A TokenReview changes nothing, though it is a create. How many there are is limited
// by the link itself.
func reviews(cluster *rest.Config) (link.Authenticator, error) {
	own := rest.AddUserAgent(rest.CopyConfig(cluster), "link")
	client, err := authentication.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("make client for token reviews: %w", err)
	}
	return link.NewTokenReviewer(client.TokenReviews()), nil
}

// authenticator is who knows agents by their tokens: the API server, or this process by its keys where it may not ask.
func (p parts) authenticator(ctx context.Context) (link.Authenticator, error) {
	if !p.config.confined() {
		return reviews(p.cluster)
	}
	documents, err := documents(p.cluster)
	if err != nil {
		return nil, err
	}
	verifier := link.NewTokenVerifier(documents, p.GetClient(), p.config.namespaces())
	err = verifier.Prepare(ctx)
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("%w: have an administrator bind our service account to ClusterRole system:service-account-issuer-discovery, as Kubernetes does by itself", err)
	}
	return verifier, err
}

// documents are what the API server publishes for everybody who has an account.
func documents(cluster *rest.Config) (link.Documents, error) {
	own := rest.AddUserAgent(rest.CopyConfig(cluster), "link")
	own.NegotiatedSerializer = runtime.NewSimpleNegotiatedSerializer(runtime.SerializerInfo{})
	client, err := rest.UnversionedRESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("make client for the keys of the cluster: %w", err)
	}
	return func(ctx context.Context, path string) ([]byte, error) { return client.Get().AbsPath(path).DoRaw(ctx) }, nil
}

// tenure is what is known of the Lease.
type tenure interface {
	Fresh() bool
	Term() int64
	Holder() string
}

// speakers says who may speak on the link, by the Lease.
type speakers struct {
	tenure   tenure
	identity string      // of this process in the Lease
	open     func() bool // whether agents may be welcomed
}

// Leading implements link.Leadership.
func (s speakers) Leading() (term int64, leading bool) {
	return s.tenure.Term(), s.tenure.Fresh() && s.open()
}

// Leader implements link.Leadership. It is nobody while it would be this process, which then is not ready: an agent would run in a
// circle.
func (s speakers) Leader() string {
	holder := s.tenure.Holder()
	if holder == s.identity {
		return ""
	}
	return linkOf(holder)
}

// A doorway is the link at its port, on every replica.
type doorway struct {
	server *link.Server
	port   int
}

// Start implements manager.Runnable.
func (d doorway) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address(d.port))
	if err != nil {
		return fmt.Errorf("open link.port: %w", err)
	}
	return d.server.Serve(ctx, listener)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (doorway) NeedLeaderElection() bool { return false }
