package operator

import (
	"context"
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// authenticator verifies the tokens of agents. If the operator may create TokenReviews, it does so for tokens that it cannot verify
// itself. Its connections do not end with leadership: a standby must authenticate an agent before redirecting it to the leader. A
// TokenReview is a create that changes nothing.
func (p deps) authenticator(ctx context.Context) (link.Authenticator, error) {
	published, err := newDocuments(p.cluster)
	if err != nil {
		return nil, err
	}
	if p.config.isNamespaced() {
		return p.verifier(ctx, published)
	}
	linkConfig := rest.AddUserAgent(rest.CopyConfig(p.cluster), "link")
	reviews, err := authentication.NewForConfig(linkConfig)
	if err != nil {
		return nil, fmt.Errorf("make client for token reviews: %w", err)
	}
	pods, err := metadata.NewForConfig(linkConfig)
	if err != nil {
		return nil, fmt.Errorf("make client for pods of agents: %w", err)
	}
	tokens := link.NewTokenAuthenticator(link.TokenOptions{
		Reviews: reviews.TokenReviews(), Documents: published, Pods: listAgentPods(pods), IsClockReliable: p.clockReliable,
		InScope: p.mayHaveAgents, Refusals: p.refusals,
	})
	if err := tokens.Prepare(ctx); err != nil {
		p.env.Log.Warn("cannot read the signing keys of the cluster: every agent token needs a TokenReview, which is slow for many agents",
			"err", err)
	}
	return tokens, nil
}

func (p deps) clockReliable() bool {
	_, reliable := p.skew.Skew()
	return reliable
}

// scopeTimeout is how long a token waits for the cache of namespaces, which delays it only at the start.
const scopeTimeout = 100 * time.Millisecond

// mayHaveAgents reports whether the operator works in a namespace, or does not know yet.
func (p deps) mayHaveAgents(ctx context.Context, namespace string) bool {
	waitCtx, cancel := context.WithTimeout(ctx, scopeTimeout)
	defer cancel()
	inScope, err := p.scope.IncludesNamed(waitCtx, p.GetClient(), namespace)
	return inScope || err != nil
}

// verifier authenticates agents by the keys of the cluster alone.
func (p deps) verifier(ctx context.Context, published link.DocumentReader) (link.Authenticator, error) {
	verifier := link.NewTokenVerifier(published, p.GetClient(), p.config.namespaceNames())
	err := verifier.Prepare(ctx)
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("%w: have an administrator bind our service account to ClusterRole system:service-account-issuer-discovery, as Kubernetes does by itself", err)
	}
	return verifier, err
}

// listAgentPods lists the pods of all swarms. It skips pods that should be gone by now: only the API server knows whether their tokens
// are still valid.
func listAgentPods(cluster metadata.Interface) link.PodLister {
	return func(ctx context.Context) ([]link.Identity, error) {
		list, err := cluster.Resource(corev1.SchemeGroupVersion.WithResource("pods")).List(ctx,
			metav1.ListOptions{LabelSelector: v1alpha1.LabelSwarm})
		if err != nil {
			return nil, fmt.Errorf("list pods of agents: %w", err)
		}
		pods, now := make([]link.Identity, 0, len(list.Items)), time.Now()
		for n := range list.Items {
			pod := &list.Items[n]
			if deletion := pod.DeletionTimestamp; deletion == nil || now.Before(deletion.Time) {
				pods = append(pods, link.Identity{Namespace: pod.Namespace, Pod: pod.Name, PodUID: string(pod.UID)})
			}
		}
		return pods, nil
	}
}

// newDocuments are what the API server publishes for every account.
func newDocuments(cluster *rest.Config) (link.DocumentReader, error) {
	linkConfig := rest.AddUserAgent(rest.CopyConfig(cluster), "link")
	linkConfig.NegotiatedSerializer = runtime.NewSimpleNegotiatedSerializer(runtime.SerializerInfo{})
	client, err := rest.UnversionedRESTClientFor(linkConfig)
	if err != nil {
		return nil, fmt.Errorf("make client for the keys of the cluster: %w", err)
	}
	return func(ctx context.Context, path string) ([]byte, error) { return client.Get().AbsPath(path).DoRaw(ctx) }, nil
}

// leaseState is the state of the Lease.
type leaseState interface {
	Fresh() bool
	Term() int64
	Holder() string
}

// leaderInfo decides who may speak on the link, by the Lease.
type leaderInfo struct {
	lease         leaseState
	identity      string      // of this process in the Lease
	acceptsAgents func() bool // whether agents may be welcomed
}

// Leading implements link.Leadership.
func (s leaderInfo) Leading() (term int64, leading bool) {
	return s.lease.Term(), s.lease.Fresh() && s.acceptsAgents()
}

// Leader implements link.Leadership. It returns "" while this process holds the Lease but is not ready: redirecting an agent to itself
// would loop.
func (s leaderInfo) Leader() string {
	holder := s.lease.Holder()
	if holder == s.identity {
		return ""
	}
	return linkAddressOf(holder)
}

// A linkServer serves the link on every replica.
type linkServer struct {
	server *link.Server
	port   int
}

// Start implements manager.Runnable.
func (d linkServer) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listenAddress(d.port))
	if err != nil {
		return fmt.Errorf("open link.port: %w", err)
	}
	return d.server.Serve(ctx, listener)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (linkServer) NeedLeaderElection() bool { return false }
