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
	"github.com/swarm-io/swarm-operator/internal/admission"
	"github.com/swarm-io/swarm-operator/internal/authority"
	"github.com/swarm-io/swarm-operator/internal/clockskew"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/authorizer"
	"github.com/swarm-io/swarm-operator/internal/manifest"
	"github.com/swarm-io/swarm-operator/internal/placement"
	"github.com/swarm-io/swarm-operator/internal/survey"
	"github.com/swarm-io/swarm-operator/kit"
)

// lease is the name of the Lease for leader election.
const lease = "swarm-operator"

// startPatience is how long the start waits for the API server. A kubelet kills a container that is not live after about the same
// time.
const startPatience = 30 * time.Second

// Surroundings are what the operator learns from where it runs.
type Surroundings struct {
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
func Run(ctx context.Context, config Config, around Surroundings) error {
	around.Log.Info("starting", "version", around.Version, "pod", around.Pod)
	parts, err := assemble(ctx, config, around)
	if err != nil {
		return err
	}
	err = parts.Start(ctx)
	parts.unregister(ctx)
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	around.Log.Info("stopped")
	return nil
}

func assemble(ctx context.Context, config Config, around Surroundings) (*parts, error) {
	cluster := rest.CopyConfig(around.Cluster)
	cluster.QPS = -1 // caches, the Lease and token reviews are not limited
	cluster.UserAgent = "swarm-operator/" + around.Version
	skew := clockskew.New(ctrlmetrics.Registry, around.Log)
	cluster.Wrap(skew.Wrap)
	if err := awaitAPIServer(ctx, cluster, startPatience, around.Log); err != nil {
		return nil, err
	}
	at, err := locate(ctx, config.Link, around)
	if err != nil {
		return nil, err
	}
	terms, err := authority.NewTerms(cluster, around.Namespace)
	if err != nil {
		return nil, err
	}
	refusals := limit.NewRefusals(ctrlmetrics.Registry)
	shares := newCacheShares(config.Limits.CacheBytesPerNamespace.Value(), around.Log)
	operator, err := kit.NewOperator(cluster, kit.Options{
		Manager: manager.Options{
			Scheme:                 scheme(),
			HealthProbeBindAddress: "0", // metrics and probes have servers of ours: see endpoint
			Metrics:                server.Options{BindAddress: "0"},
			Cache:                  config.confine(caches(around.Namespace, config.spreading(), refusals, shares)),
		},
		OnUncached:  shares.release,
		NewClients:  limited(config.budget()),
		Election:    election(config.Controller.LeaderElection, around, at, terms),
		SyncTimeout: config.Controller.CacheSyncTimeout.Duration,
	})
	if err != nil {
		return nil, err
	}
	follower := authority.Follow(operator.GetClient(), around.Namespace)
	scope, err := config.scope()
	if err != nil {
		return nil, err
	}
	pods, err := survey.IndexPods(ctx, operator.GetCache())
	if err != nil {
		return nil, err
	}
	parts := &parts{
		Operator: operator, config: config, around: around, cluster: cluster, at: at, scope: scope,
		authority: follower, dispatcher: newDispatcher(operator, config, refusals),
		pods: pods, desk: placement.NewDesk(operator.GetClient(), pods, config.spreading(), refusals),
		entrance: &entrance{now: time.Now}, skew: skew, refusals: refusals,
	}
	if err := parts.addRegistration(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(parts.addHealth(), parts.addLink(ctx), parts.addAPI(), parts.addWebhook(ctx), parts.addControllers(ctx), parts.addSpread(ctx)); err != nil {
		return nil, err
	}
	return parts, parts.addEndpoints(ctx)
}

// parts are the components of the operator.
type parts struct {
	*kit.Operator
	config     Config
	around     Surroundings
	cluster    *rest.Config // connections that do not end with leadership: for reads and reviews only
	at         addresses
	scope      *kit.Scope
	authority  *authority.Follower
	dispatcher *dispatcher
	pods       survey.Pods
	desk       *placement.Desk
	refusals   *limit.Refusals
	entrance   *entrance
	skew       *clockskew.Monitor

	registration *admission.Registration // nil if the operator does not register its webhook itself
}

// addLink maintains the CA and serves the link.
func (p parts) addLink(ctx context.Context) error {
	tokens, err := p.authenticator(ctx)
	if err != nil {
		return err
	}
	server, err := link.New(link.Config{
		Authenticator: tokens, Metrics: ctrlmetrics.Registry,
		Certificates: p.authority,
		Leadership:   speakers{tenure: p.Leadership, identity: p.Leadership.Identity(), open: p.dispatcher.welcomes},
		Events: authorizer.New(authorizer.Config{
			Cache: p.GetClient(), Live: p.GetAPIReader(), Scope: p.scope, Refusals: p.refusals, Next: p.dispatcher.board,
		}),
		Terms:  p.authority.TermProofs(p.around.Namespace + "/" + lease),
		Leases: p.dispatcher.board,
		Ready:  p.dispatcher.board.Ready(),
		Peers:  p.peers(),
		Limits: link.Limits{ConnectionsPerSource: p.config.Limits.ConnectionsPerSource}, Refusals: p.refusals,
	})
	if err != nil {
		return err
	}
	p.dispatcher.board.Connect(server)
	kept := authority.Keeper{Namespace: p.around.Namespace, Names: p.certificateNames(), Lifetimes: authority.Standard(), Term: p.Leadership.Term}
	return errors.Join(authority.Keep(p.Operator, kept), p.Add(doorway{server, p.config.Link.Port}), p.Add(p.dispatcher))
}

// settings are passed to pods of agents.
func (p parts) settings(ctx context.Context) manifest.Settings {
	return manifest.Settings{
		Image: p.around.Image, Link: p.at.told, Authority: p.authority.Bundle(ctx), ShortestLease: p.config.Controller.LeaderElection.shortestAgentLease(),
		SpreadPrefix: p.config.Spread.AnnotationPrefix, SpreadOff: p.config.spreadOff(),
	}
}

func scheme() *runtime.Scheme {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{admissionv1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, autoscalingv1.AddToScheme, coordinationv1.AddToScheme, eventsv1.AddToScheme, policyv1.AddToScheme, v1alpha1.AddToScheme} {
		utilruntime.Must(add(known)) // fails only for invalid types
	}
	return known
}

// election holds the Lease even without other replicas, because its transitions are the operator's term.
func election(config LeaderElection, around Surroundings, at addresses, terms kit.Terms) kit.Election {
	namespace := config.Namespace
	if namespace == "" {
		namespace = around.Namespace
	}
	return kit.Election{
		Namespace: namespace, Name: lease, Identity: identity(around.Pod, at.own),
		Forced: !config.Enabled, LeaseDuration: config.LeaseDuration.Duration, PodLock: around.PodLock, Terms: terms,
	}
}

func address(port int) string { return net.JoinHostPort("", strconv.Itoa(port)) }
