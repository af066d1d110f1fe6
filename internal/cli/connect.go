package cli

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc" // a kubeconfig that works for kubectl works here
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// shownFlags are the connection flags in the help. All of them would fill most of every page.
var shownFlags = []string{"namespace", "context", "kubeconfig", "as", "request-timeout"}

func (s *session) connectionFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	s.flags.AddFlags(flags)
	flags.VisitAll(func(flag *pflag.Flag) { flag.Hidden = !slices.Contains(shownFlags, flag.Name) })
	s.registerCompletion(root, "namespace", s.namespaceNames)
	s.registerCompletion(root, "context", s.contextNames)
}

// connect creates a client from the flags and the kubeconfig.
func (s *session) connect() (client.Client, error) {
	if s.isUnconfigured() {
		return nil, clientcmd.ErrEmptyConfig
	}
	config, err := s.flags.ToRESTConfig()
	if err != nil {
		return nil, kubeconfigError(err)
	}
	config.WarningHandler = rest.NewWarningWriter(s.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("prepare client: %w", err)
		}
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// cluster is where a command reads and writes.
type cluster struct {
	client.Client
	namespace string
}

// open connects to the cluster, in the requested namespace.
func (s *session) open() (cluster, error) {
	namespace, _, err := s.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return cluster{}, kubeconfigError(err)
	}
	c, err := s.dial()
	return cluster{c, namespace}, err
}

// isUnconfigured reports whether no cluster is configured: the library would then use localhost.
func (s *session) isUnconfigured() bool {
	config, err := s.flags.ToRawKubeConfigLoader().RawConfig()
	return err == nil && len(config.Clusters) == 0 && *s.flags.APIServer == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == ""
}

func kubeconfigError(err error) error {
	return fmt.Errorf("read kubeconfig: %w: check --context and --kubeconfig; kubectl config get-contexts lists the contexts", err)
}

// explain adds a fix to an error of the cluster.
func explain(err error) error {
	_, unreachable := errors.AsType[*url.Error](err)
	switch {
	case meta.IsNoMatchError(err):
		return errors.New("the cluster knows no WorkerPool: install the operator, see docs/how-to/install.md")
	case errors.Is(err, clientcmd.ErrEmptyConfig), clientcmd.IsEmptyConfig(err):
		return errors.New("no cluster is configured: set KUBECONFIG, or use --kubeconfig")
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w: log in again, or use --context", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: ask for that right, or use --context or --as", err)
	case unreachable:
		return fmt.Errorf("%w: check that the cluster runs, and --context and --kubeconfig", err)
	}
	return err
}
