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

// Options configures an Operator. The zero value of each option except Election is a good default.
type Options struct {
	// Manager holds the options of controller-runtime: scheme, probes, metrics, webhooks, logger. Kit sets election, client and sync
	// timeout.
	Manager manager.Options
	// NewClients creates the client, in place of Manager.NewClient, and the reader that GetAPIReader returns. Without it, that reader is
	// the one of controller-runtime, which shares no limits with the client.
	NewClients NewClientsFunc
	// Election names the Lease.
	Election Election
	// Prefix of the annotations <prefix>paused and <prefix>reconcile-at; swarm.io/ by default.
	Prefix string
	// OnUncached is called for each object that a cache no longer holds, as the cache last held it. Any goroutine may call it.
	OnUncached func(client.Object)
	// SyncTimeout is how long the caches may take; 30 s by default. A missing permission shows here.
	SyncTimeout time.Duration
}

// NewClientsFunc creates a client that reads from the caches, and a reader that bypasses them.
type NewClientsFunc func(*rest.Config, client.Options) (cached client.Client, live client.Reader, err error)

// An Operator is a manager that starts in the right order and acts only while it leads: caches start, caches are synced,
// the program is ready, it stands for election, controllers run. Webhooks are served from the beginning, on every replica.
type Operator struct {
	manager.Manager
	// Leadership reports whether this process leads, and in which term.
	Leadership *Leadership

	prefix        string
	syncTimeout   time.Duration
	controllers   map[schema.GroupVersionKind]string
	requiredKinds []client.Object
	synced        chan struct{}
	inFlight      inFlight
	live          client.Reader // nil if the manager's is used
	events        eventLimits
	probes        probes
}

// NewOperator returns an Operator. Its client reads from the caches, and writes only while this process leads.
func NewOperator(config *rest.Config, options Options) (*Operator, error) {
	o := &Operator{
		prefix:      orDefault(options.Prefix, defaultPrefix),
		syncTimeout: orDefault(options.SyncTimeout, defaultSyncTimeout),
		controllers: map[schema.GroupVersionKind]string{},
		synced:      make(chan struct{}),
	}
	o.Leadership = newLeadership(options.Election)
	managerOptions := options.Manager
	managerOptions.Controller.CacheSyncTimeout = o.syncTimeout
	managerOptions.Cache.NewInformer = newInformerFunc(options.OnUncached)
	if options.NewClients != nil {
		managerOptions.NewClient = o.newClientFunc(options.NewClients)
	}
	managerOptions.NewClient = fenceNewClient(managerOptions.NewClient, o.Leadership)
	managerOptions.Logger = withLogFilter(managerOptions.Logger)
	if err := options.Election.configureManager(config, &managerOptions, o.Leadership, o.synced); err != nil {
		return nil, err
	}
	var err error
	if o.Manager, err = manager.New(o.Leadership.fenceConnections(config), managerOptions); err != nil {
		return nil, fmt.Errorf("make manager: %w", err)
	}
	return o, o.addChecks()
}

// newClientFunc returns a function that creates the client, and stores the reader that belongs to it.
func (o *Operator) newClientFunc(newClients NewClientsFunc) client.NewClientFunc {
	return func(config *rest.Config, options client.Options) (client.Client, error) {
		cached, live, err := newClients(config, options)
		o.live = live
		return cached, err
	}
}

// GetAPIReader returns a reader that bypasses the caches. It has the limits that Options.NewClients gave it.
func (o *Operator) GetAPIReader() client.Reader {
	if o.live == nil {
		return o.Manager.GetAPIReader()
	}
	return o.live
}

func orDefault[V comparable](value, fallback V) V {
	var zero V
	if value == zero {
		return fallback
	}
	return value
}

func (o *Operator) addChecks() error {
	return errors.Join(
		o.AddHealthzCheck("ping", healthz.Ping),
		o.AddHealthzCheck("reconciles", o.CheckReconciles),
		o.AddReadyzCheck("caches", o.checkReady),
		o.Add(nonLeaderRunnable(o.awaitCaches)),
		o.Add(o.Leadership),
	)
}

// CheckReconciles returns an error while a reconcile has not returned for a quarter of an hour. It is part of the liveness probe, as
// "reconciles".
func (o *Operator) CheckReconciles(request *http.Request) error { return o.inFlight.check(request) }

// nonLeaderRunnable is a runnable that needs no leadership.
type nonLeaderRunnable func(context.Context) error

// Start implements manager.Runnable.
func (f nonLeaderRunnable) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (nonLeaderRunnable) NeedLeaderElection() bool { return false }

// claimKind refuses a second controller of a kind that is not marked Secondary: two would undo each other's work.
func (o *Operator) claimKind(name string, object client.Object) error {
	kind, err := apiutil.GVKForObject(object, o.GetScheme())
	if err != nil {
		return err
	}
	if other, found := o.controllers[kind]; found {
		return fmt.Errorf("kind %s has a controller already, %q", kind.Kind, other)
	}
	o.controllers[kind] = name
	return nil
}

// requireCache makes readiness and election wait for the cache of a kind.
func (o *Operator) requireCache(kind client.Object) { o.requiredKinds = append(o.requiredKinds, kind) }

// Start runs the operator until the context is done or something fails. Then end the process, since it may have been the leader a moment
// ago. Start fails when the caches are not synced in time: controller-runtime would wait forever, even after the context is done, for a
// cache that was requested before the start.
func (o *Operator) Start(ctx context.Context) error {
	stopped := make(chan error, 1)
	go func() { stopped <- o.Manager.Start(ctx) }()
	timeout := time.NewTimer(o.syncTimeout)
	defer timeout.Stop()
	select {
	case err := <-stopped:
		return err
	case <-o.synced:
		return <-stopped
	case <-timeout.C:
		return fmt.Errorf("caches not synced within %s: %s: is the kind installed, and may we list and watch it?", o.syncTimeout,
			o.unsyncedKinds(ctx))
	case <-ctx.Done():
		return nil // we were not elected yet, so there is nothing to hand over
	}
}

// awaitCaches allows readiness and election once every cache is synced. It starts all caches before it waits for any.
func (o *Operator) awaitCaches(ctx context.Context) error {
	for _, kind := range o.requiredKinds {
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

// unsyncedKinds names the kinds whose caches are not synced.
func (o *Operator) unsyncedKinds(ctx context.Context) string {
	var names []string
	for _, kind := range o.requiredKinds {
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

func (o *Operator) checkReady(*http.Request) error {
	select {
	case <-o.synced:
		return nil
	default:
		return errors.New("caches are not synced")
	}
}
