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

	"github.com/swarm-io/swarm-operator/internal/admission"
	"github.com/swarm-io/swarm-operator/internal/controller/spread"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/placement"
)

// addSpread keeps workloads split between spot and on-demand nodes. The desk observes pods on every replica: any may be the next
// leader.
func (p parts) addSpread(ctx context.Context) error {
	if off := p.config.spreadOff(); off != "" {
		p.around.Log.Info("spread is off", "reason", off)
		return nil
	}
	return errors.Join(
		p.desk.Follow(ctx, p.GetCache()),
		spread.Add(p.Operator, spread.Options{
			Settings: p.config.spreading(), Pods: p.pods, Board: p.desk, Coverage: p.coverage(), Scope: p.scope,
			Resync: p.config.Controller.ResyncPeriod.Duration, Workers: p.config.Controller.Workers, Metrics: ctrlmetrics.Registry,
		}),
	)
}

// coverage determines the namespaces of the spread webhook.
func (p parts) coverage() admission.Coverage {
	covered := admission.Coverage{Reader: p.GetClient(), Settings: p.config.spreading(), Scope: p.scope, Own: p.around.Namespace, Open: p.entrance.found}
	if p.registration != nil {
		covered.Open = p.registration.Settled
	}
	if !p.config.Webhook.Enabled {
		covered.Off = "webhook.enabled is false, so pods are created without a capacity type: enable it"
	}
	return covered
}

// peers lets other replicas ask the leader's desk, at the port of the link.
func (p parts) peers() link.Peers {
	if p.config.spreadOff() != "" {
		return link.Peers{}
	}
	return link.Peers{
		Authority: p.authority.Pool,
		Register:  func(to grpc.ServiceRegistrar) { placement.Serve(to, p.desk, p.Leadership.Fresh) },
	}
}

// switchboard places pods: through this replica if it leads, and else through the leader, at the address in its Lease.
func (p parts) switchboard() *placement.Switchboard {
	name := hostOf(linkService, p.around.Namespace) // which the certificate of every replica is valid for
	return placement.NewSwitchboard(placement.Peers{
		Own: p.desk, Leading: p.Leadership.Fresh, Leader: speakers{tenure: p.Leadership, identity: p.Leadership.Identity()}.Leader,
		TLS:     func(ctx context.Context) (*tls.Config, error) { return p.authority.Client(ctx, name) },
		Metrics: ctrlmetrics.Registry,
	})
}

// foundAfter is how long it takes until the Service routes to a webhook that has begun to answer: one kubelet probe, plus propagation
// to every node. A pod that is removed before would be replaced by one without a place.
const foundAfter = 6 * time.Second

// An entrance is the webhook as seen from outside.
type entrance struct {
	answers healthz.Checker
	now     func() time.Time

	lock  sync.Mutex
	since time.Time // when it was first seen to answer
}

// found reports whether callers can have found the webhook by now.
func (e *entrance) found() bool {
	e.lock.Lock()
	defer e.lock.Unlock()
	if e.since.IsZero() {
		if e.answers == nil || e.answers(nil) != nil {
			return false
		}
		e.since = e.now()
	}
	return e.now().Sub(e.since) >= foundAfter
}
