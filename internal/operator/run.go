package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/certs"
	"github.com/swarm-io/swarm-operator/internal/controller/webhookconfig"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/authorizer"
	"github.com/swarm-io/swarm-operator/internal/operator/clockskew"
	"github.com/swarm-io/swarm-operator/internal/spread/allocator"
	"github.com/swarm-io/swarm-operator/internal/swarm/manifest"
	"github.com/swarm-io/swarm-operator/internal/workload"
	"github.com/swarm-io/swarm-operator/kit"
)

// leaseName is the name of the Lease for leader election.
const leaseName = "swarm-operator"

// startTimeout is how long the start waits for the API server. A kubelet kills a container that is not live after about the same
// time.
const startTimeout = 30 * time.Second

// Environment are what the operator learns from where it runs.
type Environment struct {
	Cluster   *rest.Config
	Namespace string // its own
	Pod       string // its own, or anything that distinguishes replicas
	Host      string // its pod's address; "" outside of a cluster
	Image     string // of agents
	Version   string
	Log       *slog.Logger
	PodLock   kit.PodLock // see kit.Election; may be nil
}

// Run runs the operator until the context is done.
func Run(ctx context.Context, config Config, env Environment) error {
	env.Log.Info("starting", "version", env.Version, "pod", env.Pod)
	parts, err := assemble(ctx, config, env)
	if ctx.Err() != nil {
		env.Log.Info("stopped before it had started")
		return nil //nolint:nilerr // a signal to stop is no failure
	}
	if err != nil {
		return err
	}
	err = parts.Start(ctx)
	parts.unregister(ctx)
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	env.Log.Info("stopped")
	return nil
}

// assemble builds the operator with all of its components.
func assemble(ctx context.Context, config Config, env Environment) (*deps, error) {
	parts, err := newDeps(ctx, config, env)
	if err != nil {
		return nil, err
	}
	if err := parts.addRegistration(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(parts.addHealth(), parts.addLink(ctx), parts.addAPI(), parts.addWebhook(ctx), parts.addControllers(ctx),
		parts.addSpread(ctx)); err != nil {
		return nil, err
	}
	return parts, parts.addEndpoints(ctx)
}

// newDeps connects to the API server, and builds what components share.
func newDeps(ctx context.Context, config Config, env Environment) (*deps, error) {
	p := &deps{
		config: config, env: env, cluster: rest.CopyConfig(env.Cluster), webhookGate: &webhookGate{now: time.Now},
		skew: clockskew.New(ctrlmetrics.Registry, env.Log), refusals: limit.NewRefusals(ctrlmetrics.Registry),
	}
	p.cluster.QPS = -1 // caches, the Lease and token reviews are not limited
	p.cluster.UserAgent = "swarm-operator/" + env.Version
	p.cluster.Wrap(p.skew.Wrap)
	if err := awaitAPIServer(ctx, p.cluster, startTimeout, env.Log); err != nil {
		return nil, err
	}
	var err error
	if p.addresses, err = findAddresses(ctx, config.Link, env); err != nil {
		return nil, err
	}
	if p.scope, err = config.scope(); err != nil {
		return nil, err
	}
	if p.Operator, err = p.newOperator(); err != nil {
		return nil, err
	}
	if p.pods, err = workload.IndexPods(ctx, p.GetCache()); err != nil {
		return nil, err
	}
	p.certs = certs.NewReader(p.GetClient(), env.Namespace)
	p.dispatchRunner = newDispatchRunner(p.Operator, config, p.refusals)
	p.allocator = allocator.New(p.GetClient(), p.pods, config.spreadSettings(), p.refusals)
	return p, nil
}

// newOperator builds the operator without components: its caches, clients and election.
func (p deps) newOperator() (*kit.Operator, error) {
	terms, err := certs.NewTerms(p.cluster, p.env.Namespace)
	if err != nil {
		return nil, err
	}
	quota := newCacheQuota(p.config.Limits.CacheBytesPerNamespace.Value(), p.env.Log)
	return kit.NewOperator(p.cluster, kit.Options{
		Manager: manager.Options{
			Scheme:                 newScheme(),
			HealthProbeBindAddress: "0", // metrics and probes have servers of ours: see endpoint
			Metrics:                server.Options{BindAddress: "0"},
			Cache:                  p.config.restrictCaches(cacheOptions(p.env.Namespace, p.config.spreadSettings(), p.refusals, quota)),
		},
		OnUncached:  quota.release,
		NewClients:  newLimitedClients(p.config.requestBudget()),
		Election:    newElection(p.config.Controller.LeaderElection, p.env, p.addresses, terms),
		SyncTimeout: p.config.Controller.CacheSyncTimeout.Duration,
	})
}

// deps are the components of the operator.
type deps struct {
	*kit.Operator
	config         Config
	env            Environment
	cluster        *rest.Config // connections that do not end with leadership: for reads and reviews only
	addresses      addresses
	scope          *kit.Scope
	certs          *certs.Reader
	dispatchRunner *dispatchRunner
	pods           workload.PodLister
	allocator      *allocator.Allocator
	refusals       *limit.Refusals
	webhookGate    *webhookGate
	skew           *clockskew.Monitor

	registration *webhookconfig.Registration // nil if the operator does not register its webhook itself
}

// addLink maintains the CA and serves the link.
func (p deps) addLink(ctx context.Context) error {
	tokens, err := p.authenticator(ctx)
	if err != nil {
		return err
	}
	server, err := link.New(link.Config{
		Authenticator: tokens, Metrics: ctrlmetrics.Registry,
		Certificates: p.certs,
		Leadership:   leaderInfo{lease: p.Leadership, identity: p.Leadership.Identity(), acceptsAgents: p.dispatchRunner.acceptsAgents},
		Events: authorizer.New(authorizer.Config{
			Cache: p.GetClient(), Live: p.GetAPIReader(), Scope: p.scope, Refusals: p.refusals, Next: p.dispatchRunner.dispatcher,
		}),
		Terms:  p.certs.TermProofs(p.env.Namespace + "/" + leaseName),
		Leases: p.dispatchRunner.dispatcher,
		Ready:  p.dispatchRunner.dispatcher.Ready(),
		Peers:  p.peers(),
		Limits: link.Limits{ConnectionsPerSource: p.config.Limits.ConnectionsPerSource}, Refusals: p.refusals,
	})
	if err != nil {
		return err
	}
	p.dispatchRunner.dispatcher.Connect(server)
	certOptions := certs.Options{Namespace: p.env.Namespace, Names: p.certificateNames(), Lifetimes: certs.DefaultLifetimes(),
		Term: p.Leadership.Term}
	return errors.Join(certs.AddController(p.Operator, certOptions), p.Add(linkServer{server, p.config.Link.Port}), p.Add(p.dispatchRunner))
}

// manifestSettings are passed to pods of agents.
func (p deps) manifestSettings(ctx context.Context) manifest.Settings {
	return manifest.Settings{
		Image: p.env.Image, Link: p.addresses.advertised, Authority: p.certs.Bundle(ctx),
		ShortestLease: p.config.Controller.LeaderElection.minAgentLease(),
		SpreadPrefix:  p.config.Spread.AnnotationPrefix, SpreadOff: p.config.spreadDisabledReason(),
	}
}

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{admissionv1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme,
		autoscalingv1.AddToScheme, coordinationv1.AddToScheme, eventsv1.AddToScheme, policyv1.AddToScheme, v1alpha1.AddToScheme} {
		utilruntime.Must(add(s)) // fails only for invalid types
	}
	return s
}

// newElection holds the Lease even without other replicas, because its transitions are the operator's term.
func newElection(config LeaderElection, env Environment, addrs addresses, terms kit.Terms) kit.Election {
	namespace := config.Namespace
	if namespace == "" {
		namespace = env.Namespace
	}
	return kit.Election{
		Namespace: namespace, Name: leaseName, Identity: leaseIdentity(env.Pod, addrs.process),
		Forced: !config.Enabled, LeaseDuration: config.LeaseDuration.Duration, PodLock: env.PodLock, Terms: terms,
	}
}

func listenAddress(port int) string { return net.JoinHostPort("", strconv.Itoa(port)) }
