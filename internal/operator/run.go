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

func assemble(ctx context.Context, config Config, env Environment) (*deps, error) {
	cluster := rest.CopyConfig(env.Cluster)
	cluster.QPS = -1 // caches, the Lease and token reviews are not limited
	cluster.UserAgent = "swarm-operator/" + env.Version
	skew := clockskew.New(ctrlmetrics.Registry, env.Log)
	cluster.Wrap(skew.Wrap)
	if err := awaitAPIServer(ctx, cluster, startTimeout, env.Log); err != nil {
		return nil, err
	}
	addrs, err := findAddresses(ctx, config.Link, env)
	if err != nil {
		return nil, err
	}
	terms, err := certs.NewTerms(cluster, env.Namespace)
	if err != nil {
		return nil, err
	}
	refusals := limit.NewRefusals(ctrlmetrics.Registry)
	quota := newCacheQuota(config.Limits.CacheBytesPerNamespace.Value(), env.Log)
	operator, err := kit.NewOperator(cluster, kit.Options{
		Manager: manager.Options{
			Scheme:                 newScheme(),
			HealthProbeBindAddress: "0", // metrics and probes have servers of ours: see endpoint
			Metrics:                server.Options{BindAddress: "0"},
			Cache:                  config.restrictCaches(cacheOptions(env.Namespace, config.spreadSettings(), refusals, quota)),
		},
		OnUncached:  quota.release,
		NewClients:  newLimitedClients(config.requestBudget()),
		Election:    newElection(config.Controller.LeaderElection, env, addrs, terms),
		SyncTimeout: config.Controller.CacheSyncTimeout.Duration,
	})
	if err != nil {
		return nil, err
	}
	follower := certs.NewReader(operator.GetClient(), env.Namespace)
	scope, err := config.scope()
	if err != nil {
		return nil, err
	}
	pods, err := workload.IndexPods(ctx, operator.GetCache())
	if err != nil {
		return nil, err
	}
	parts := &deps{
		Operator: operator, config: config, env: env, cluster: cluster, addresses: addrs, scope: scope,
		certs: follower, dispatchRunner: newDispatchRunner(operator, config, refusals),
		pods: pods, allocator: allocator.New(operator.GetClient(), pods, config.spreadSettings(), refusals),
		webhookGate: &webhookGate{now: time.Now}, skew: skew, refusals: refusals,
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
