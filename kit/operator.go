package kit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	defaultPrefix      = "swarm.io/"
	defaultSyncTimeout = 30 * time.Second
)

// Options configure an Operator. Except for the Election, the zero value of each is a good default.
type Options struct {
	// Manager is everything controller-runtime lets you choose: scheme, probes, metrics, webhooks, logger. What kit is
	// about (election, client, sync timeout) is set by kit.
	Manager manager.Options
	// NewClients makes the client, in place of Manager.NewClient, and with it the reader that GetAPIReader returns. Without it, that reader is
	// controller-runtime's, which shares no limits with the client.
	NewClients NewClientsFunc
	// Election names the Lease.
	Election Election
	// Prefix of the annotations <prefix>paused and <prefix>reconcile-at; swarm.io/ by default.
	Prefix string
	// Uncached is called for each object that a cache no longer holds, as the cache last held it. Any goroutine may call it.
	Uncached func(client.Object)
	// SyncTimeout is how long the caches may take; 30 s by default. A missing permission shows here.
	SyncTimeout time.Duration
}

// NewClientsFunc makes a client that reads from the caches, and a reader that reads past them.
type NewClientsFunc func(*rest.Config, client.Options) (cached client.Client, live client.Reader, err error)

// An Operator is a manager that starts in the right order and acts only while it leads: caches start, caches are synced,
// the program is ready, it stands for election, controllers run. Webhooks are served from the beginning, on every replica.
type Operator struct {
	manager.Manager
	// Leadership reports whether this process leads, and in which term.
	Leadership *Leadership

	prefix      string
	syncTimeout time.Duration
	controllers map[schema.GroupVersionKind]string
	kinds       []client.Object
	synced      chan struct{}
	inFlight    inFlight
	live        client.Reader // nil if it is the manager's
	events      eventLimits
	probes      probes
}

// NewOperator makes an Operator. Its client reads from the caches, and writes only while this process leads.
func NewOperator(config *rest.Config, options Options) (*Operator, error) {
	o := &Operator{
		prefix:      orDefault(options.Prefix, defaultPrefix),
		syncTimeout: orDefault(options.SyncTimeout, defaultSyncTimeout),
		controllers: map[schema.GroupVersionKind]string{},
		synced:      make(chan struct{}),
	}
	o.Leadership = newLeadership(options.Election)
	chosen := options.Manager
	chosen.Controller.CacheSyncTimeout = o.syncTimeout
	chosen.Cache.NewInformer = informers(options.Uncached)
	if options.NewClients != nil {
		chosen.NewClient = o.keepLive(options.NewClients)
	}
	chosen.NewClient = fencing(chosen.NewClient, o.Leadership)
	chosen.Logger = quietly(chosen.Logger)
	if err := options.Election.join(config, &chosen, o.Leadership, o.synced); err != nil {
		return nil, err
	}
	var err error
	if o.Manager, err = manager.New(o.Leadership.wired(config), chosen); err != nil {
		return nil, fmt.Errorf("make manager: %w", err)
	}
	return o, o.register()
}

// keepLive makes the client, and keeps the reader that comes with it.
func (o *Operator) keepLive(newClients NewClientsFunc) client.NewClientFunc {
	return func(config *rest.Config, options client.Options) (client.Client, error) {
		cached, live, err := newClients(config, options)
		o.live = live
		return cached, err
	}
}

// GetAPIReader returns a reader that reads past the caches. It has the limits that Options.NewClients gave it.
func (o *Operator) GetAPIReader() client.Reader {
	if o.live == nil {
		return o.Manager.GetAPIReader()
	}
	return o.live
}

func orDefault[V comparable](chosen, byDefault V) V {
	var none V
	if chosen == none {
		return byDefault
	}
	return chosen
}

func (o *Operator) register() error {
	return errors.Join(
		o.AddHealthzCheck("ping", healthz.Ping),
		o.AddHealthzCheck("reconciles", o.CheckReconciles),
		o.AddReadyzCheck("caches", o.ready),
		o.Add(everywhere(o.sync)),
		o.Add(o.Leadership),
	)
}

// CheckReconciles returns an error while a reconcile has not returned for a quarter of an hour. It is part of the liveness probe, as "reconciles".
func (o *Operator) CheckReconciles(request *http.Request) error { return o.inFlight.healthy(request) }

// everywhere is a runnable that needs no leadership.
type everywhere func(context.Context) error

// Start implements manager.Runnable.
func (f everywhere) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }

// claim lets a kind have one controller only, except for those marked Beside: two would undo each other's work.
func (o *Operator) claim(name string, object client.Object) error {
	kind, err := apiutil.GVKForObject(object, o.GetScheme())
	if err != nil {
		return err
	}
	if other, taken := o.controllers[kind]; taken {
		return fmt.Errorf("kind %s has a controller already, %q", kind.Kind, other)
	}
	o.controllers[kind] = name
	return nil
}

// needs makes readiness and election wait for the cache of a kind.
func (o *Operator) needs(kind client.Object) { o.kinds = append(o.kinds, kind) }

// Start runs the operator until the context is done or something fails; then end the process, since it may have been the
// leader a moment ago. It gives up when the caches are not synced in time: controller-runtime would wait for ever, deaf
// even to the context, for a cache that was asked for before the start.
func (o *Operator) Start(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- o.Manager.Start(ctx) }()
	timeout := time.NewTimer(o.syncTimeout)
	defer timeout.Stop()
	select {
	case err := <-ended:
		return err
	case <-o.synced:
		return <-ended
	case <-timeout.C:
		return fmt.Errorf("caches not synced within %s: %s: is the kind installed, and may we list and watch it?", o.syncTimeout, o.unsynced(ctx))
	case <-ctx.Done():
		return nil // we were not elected yet, so there is nothing to hand over
	}
}

// sync opens the way to readiness and election once every cache is synced. It starts all of them before it waits for any.
func (o *Operator) sync(ctx context.Context) error {
	for _, kind := range o.kinds {
		if _, err := o.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("start cache of %s: %w", o.kindOf(kind), err)
		}
	}
	if !o.GetCache().WaitForCacheSync(ctx) {
		return nil // stopped
	}
	o.GetLogger().Info("caches synced, ready")
	close(o.synced)
	return nil
}

// unsynced names the kinds whose caches are not synced.
func (o *Operator) unsynced(ctx context.Context) string {
	var names []string
	for _, kind := range o.kinds {
		informer, err := o.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil || !informer.HasSynced() {
			names = append(names, o.kindOf(kind))
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

func (o *Operator) kindOf(object client.Object) string {
	kind, err := apiutil.GVKForObject(object, o.GetScheme())
	if err != nil {
		return fmt.Sprintf("%T", object)
	}
	return kind.Kind
}

func (o *Operator) ready(*http.Request) error {
	select {
	case <-o.synced:
		return nil
	default:
		return errors.New("caches are not synced")
	}
}
