// Package crash proves that the operator may die anywhere: it is killed right after each single write that it makes, before it hears
// of the answer, and must come to the same end as if nothing had happened.
//
// The operator is the real program, built with the race detector when there is a C compiler. A proxy in this process stands between
// it and the API server and counts. Pods are on simulated nodes; their agents and workers are real ones (internal/testkit/crew, gang).
package crash

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/gang"
)

// Set once, before the first test.
var (
	cluster *rest.Config
	api     client.Client // reads and writes as the user of the cluster
	program string        // the operator
	workers *gang.Gang    // those of pools
)

func TestCrash(t *testing.T) {
	if os.Getenv("KUBECONFIG") == "" {
		t.Fatal("KUBECONFIG is not set: run `make integration`, which brings a cluster, or name one of your own")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "An operator that is killed")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	cluster, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	Expect(err).NotTo(HaveOccurred())
	cluster.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme} {
		Expect(add(scheme)).To(Succeed())
	}
	api, err = client.New(cluster, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	for _, arguments := range [][]string{{"apply", "--server-side", "--force-conflicts"}, {"wait", "--for=condition=Established"}} {
		output, err := exec.CommandContext(ctx, "kubectl", append(arguments, "--filename", fromRoot("deploy", "crds"))...).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(output))
	}
	log := slog.New(slog.NewTextHandler(GinkgoWriter, &slog.HandlerOptions{Level: slog.LevelError}))
	workers, err = gang.Start(context.WithoutCancel(ctx), cluster, log)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(workers.Stop)
	began := time.Now()
	program = build(ctx)
	AddReportEntry("the operator", ReportEntryVisibilityAlways, program+", built in "+time.Since(began).Round(time.Second).String())
})

func fromRoot(elements ...string) string {
	return filepath.Join(append([]string{"..", "..", ".."}, elements...)...)
}

// build makes an operator that finds its own data races; without a C compiler it is the ordinary one.
func build(ctx context.Context) string {
	if _, err := exec.LookPath("gcc"); err != nil {
		return fromRoot("bin", "swarm-operator")
	}
	racing := fromRoot("bin", "race", "swarm-operator")
	command := exec.CommandContext(ctx, "go", "build", "-race", "-o", racing, fromRoot("cmd", "swarm-operator"))
	command.Env = append(os.Environ(), "CGO_ENABLED=1")
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	return racing
}
