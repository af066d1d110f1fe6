package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/swarm-io/swarm-operator/internal/controller/spread"
	"github.com/swarm-io/swarm-operator/internal/controller/webhookconfig"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/spread/allocator"
)

// addSpread keeps workloads split between spot and on-demand nodes. The allocator observes pods on every replica: any may be the next
// leader.
func (p deps) addSpread(ctx context.Context) error {
	if reason := p.config.spreadDisabledReason(); reason != "" {
		p.env.Log.Info("spread is off", "reason", reason)
		return nil
	}
	return errors.Join(
		p.allocator.WatchPods(ctx, p.GetCache()),
		spread.Add(p.Operator, spread.Options{
			Settings: p.config.spreadSettings(), ListPods: p.pods, Allocator: p.allocator, Coverage: p.namespaceSelector(), Scope: p.scope,
			Resync: p.config.Controller.ResyncPeriod.Duration, Workers: p.config.Controller.Workers, Metrics: ctrlmetrics.Registry,
		}),
	)
}

// namespaceSelector determines the namespaces of the spread webhook.
func (p deps) namespaceSelector() webhookconfig.NamespaceSelector {
	selector := webhookconfig.NamespaceSelector{Reader: p.GetClient(), Settings: p.config.spreadSettings(), Scope: p.scope,
		OperatorNamespace: p.env.Namespace, Reachable: p.webhookGate.isReachable}
	if p.registration != nil {
		selector.Reachable = p.registration.ProbeDone
	}
	if !p.config.Webhook.Enabled {
		selector.DisabledReason = "webhook.enabled is false, so pods are created without a capacity type: enable it"
	}
	return selector
}

// peers lets other replicas ask the leader's allocator, at the port of the link.
func (p deps) peers() link.Peers {
	if p.config.spreadDisabledReason() != "" {
		return link.Peers{}
	}
	return link.Peers{
		ClientCAs: p.certs.Pool,
		Register:  func(to grpc.ServiceRegistrar) { allocator.RegisterServer(to, p.allocator, p.Leadership.Fresh) },
	}
}

// leaderClient places pods: through this replica if it leads, and else through the leader, at the address in its Lease.
func (p deps) leaderClient() *allocator.LeaderClient {
	name := serviceHost(linkService, p.env.Namespace) // which the certificate of every replica is valid for
	return allocator.NewLeaderClient(allocator.LeaderClientOptions{
		Local: p.allocator, Leading: p.Leadership.Fresh, Leader: leaderInfo{lease: p.Leadership, identity: p.Leadership.Identity()}.Leader,
		TLS:     func(ctx context.Context) (*tls.Config, error) { return p.certs.ClientConfig(ctx, name) },
		Metrics: ctrlmetrics.Registry,
	})
}

// routeDelay is how long it takes until the Service routes to a webhook that has begun to answer: one kubelet probe, plus propagation
// to every node. A pod that is removed before would be replaced by one without a place.
const routeDelay = 6 * time.Second

// A webhookGate is the webhook as seen from outside.
type webhookGate struct {
	checkServing healthz.Checker
	now          func() time.Time

	lock         sync.Mutex
	servingSince time.Time // when it was first seen to answer
}

// isReachable reports whether callers can have found the webhook by now.
func (e *webhookGate) isReachable() bool {
	e.lock.Lock()
	defer e.lock.Unlock()
	if e.servingSince.IsZero() {
		if e.checkServing == nil || e.checkServing(nil) != nil {
			return false
		}
		e.servingSince = e.now()
	}
	return e.now().Sub(e.servingSince) >= routeDelay
}
