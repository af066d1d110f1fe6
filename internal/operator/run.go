package operator

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/controller/swarm"
	"github.com/swarm-io/swarm-operator/internal/manifest"
	"github.com/swarm-io/swarm-operator/kit"
)

// lease is the name of the Lease by which replicas agree on a leader.
const lease = "swarm-operator"

// Surroundings are what the operator learns from where it runs.
type Surroundings struct {
	Cluster   *rest.Config
	Namespace string // its own
	Pod       string // its own, or anything that tells replicas apart
	Image     string // of agents
	Version   string
	Log       io.Writer
}

// Run is the whole operator, from here until the context is done.
func Run(ctx context.Context, config Config, around Surroundings) error {
	log := logTo(around.Log, config.Logging)
	log.Info("starting", "version", around.Version, "pod", around.Pod)
	operator, err := assemble(ctx, config, around)
	if err != nil {
		return err
	}
	if err := operator.Start(ctx); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	log.Info("stopped")
	return nil
}

func assemble(ctx context.Context, config Config, around Surroundings) (*kit.Operator, error) {
	cluster := rest.CopyConfig(around.Cluster)
	cluster.QPS, cluster.Burst = float32(config.Client.QPS), config.Client.Burst
	cluster.UserAgent = "swarm-operator/" + around.Version
	operator, err := kit.NewOperator(cluster, kit.Options{
		Manager: manager.Options{
			Scheme:                 scheme(),
			HealthProbeBindAddress: address(config.Health.Port),
			Metrics:                metrics(config.Metrics),
		},
		Election: election(config.Controller.LeaderElection, around),
	})
	if err != nil {
		return nil, err
	}
	selector, err := metav1.LabelSelectorAsSelector(&config.Controller.NamespaceSelector)
	if err != nil {
		return nil, fmt.Errorf("select namespaces: %w", err)
	}
	return operator, swarm.Add(ctx, operator, swarm.Options{
		Settings: manifest.Settings{Image: around.Image},
		Scope:    kit.NewScope(selector),
		Resync:   config.Controller.ResyncPeriod.Duration,
		Workers:  config.Controller.Workers,
	})
}

func scheme() *runtime.Scheme {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, v1alpha1.AddToScheme} {
		utilruntime.Must(add(known)) // fails only for types that are wrong in themselves
	}
	return known
}

// election holds the Lease even when there is no competition, because its transitions are the operator's term.
func election(config LeaderElection, around Surroundings) kit.Election {
	namespace := config.Namespace
	if namespace == "" {
		namespace = around.Namespace
	}
	return kit.Election{
		Namespace: namespace, Name: lease, Identity: around.Pod,
		Forced: !config.Enabled, LeaseDuration: config.LeaseDuration.Duration,
	}
}

// metrics are served to callers whom the API server knows and allows to see them, unless told otherwise.
func metrics(config Metrics) server.Options {
	if !config.Enabled {
		return server.Options{BindAddress: "0"}
	}
	options := server.Options{BindAddress: address(config.Port), SecureServing: config.Secure}
	if config.Secure {
		options.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return options
}

func address(port int) string { return net.JoinHostPort("", strconv.Itoa(port)) }
