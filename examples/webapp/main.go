// Command webapp is an example of an operator on kit: a WebApp owns a Deployment and a Service, and is registered in an
// HTTP registry outside of the cluster as long as it exists. README.md shows how to write it in ten minutes.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/swarm-io/swarm-operator/kit"

	v1 "github.com/swarm-io/swarm-operator/examples/webapp/v1"
)

type settings struct {
	namespace, podName, registry, probes, metrics string
	syncTimeout, resync                           time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.namespace, "lease-namespace", "default", "namespace of the Lease that replicas compete for")
	flag.StringVar(&s.probes, "health-address", ":8081", "where /healthz and /readyz are served")
	flag.StringVar(&s.metrics, "metrics-address", "0", "where /metrics is served; 0: nowhere")
	flag.DurationVar(&s.syncTimeout, "sync-timeout", 30*time.Second, "how long the caches may take")
	flag.DurationVar(&s.resync, "resync", 30*time.Second, "how often a WebApp is looked at when nothing happens")
	flag.Parse()
	s.podName, s.registry = os.Getenv("POD_NAME"), os.Getenv("REGISTRY_URL")

	ctrl.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil)))
	if err := run(ctrl.SetupSignalHandler(), s); err != nil {
		fmt.Fprintln(os.Stderr, "webapp:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.UserAgent = name + "/" + s.podName
	operator, err := kit.NewOperator(config, kit.Options{
		Manager: manager.Options{
			Scheme: newScheme(), HealthProbeBindAddress: s.probes, Metrics: server.Options{BindAddress: s.metrics},
		},
		Election:    kit.Election{Namespace: s.namespace, Name: name, Identity: s.podName},
		SyncTimeout: s.syncTimeout,
	})
	if err != nil {
		return err
	}
	r := &reconciler{client: operator.GetClient(), status: kit.NewStatus[*v1.WebApp](operator, name), registry: registry{s.registry}}
	err = kit.New[*v1.WebApp](operator, name).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Finalizer("example.swarm.io/registry", r.unregister).
		ResyncPeriod(s.resync).
		Concurrency(2).
		Build(r)
	if err != nil {
		return err
	}
	return operator.Start(ctx)
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(v1.AddToScheme(scheme))
	utilruntime.Must(appsv1.AddToScheme(scheme))
	utilruntime.Must(corev1.AddToScheme(scheme))
	return scheme
}
