package operator

import (
	"context"
	"fmt"
	"net"

	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

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
	open     func() bool // whether the dispatcher is ready for agents
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

// newLink makes the server. Whoever hears its events also says when agents may come.
func newLink(cluster *rest.Config, config Link, parts link.Config) (*link.Server, error) {
	tokens, err := reviews(cluster)
	if err != nil {
		return nil, err
	}
	parts.Authenticator, parts.Metrics, parts.Lease = tokens, ctrlmetrics.Registry, config.AgentLease.Duration
	return link.New(parts)
}
