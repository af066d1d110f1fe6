// Package spread proves on a real API server that workloads are split between spot and on-demand nodes, and stay so: the operator is the
// program, as many replicas of it as a spec needs, and the API server asks them through a door in this process, in turn. Scheduler and
// controllers are the real ones; nodes and pods are simulated.
package spread

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// ours labels the namespaces that the suite's operator looks after, and the nodes that were made for them.
const ours = "spread.suite.swarm.io/namespace"

// Set once, before the first spec.
var (
	cluster *rest.Config
	api     client.WithWatch // reads and writes as the user of the cluster
	home    string           // the namespace with the operator's Lease
	team    *fleet           // the operator
)

func TestSpread(t *testing.T) {
	if os.Getenv("KUBECONFIG") == "" {
		t.Fatal("KUBECONFIG is not set: run `make integration`, which brings a cluster, or name one of your own")
	}
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(40 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	SetDefaultConsistentlyDuration(2 * time.Second)
	SetDefaultConsistentlyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "Spread")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	auditLog()
	connect()
	for _, arguments := range [][]string{{"apply", "--server-side", "--force-conflicts"}, {"wait", "--for=condition=Established"}} {
		output, err := exec.CommandContext(ctx, "kubectl", append(arguments, "--filename", fromRoot("deploy", "crds"))...).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(output))
	}
	park(ctx)
	home = namespace(ctx)
	team = openDoor()
	DeferCleanup(team.close)
	install(ctx, team)
	team.begin(ctx)
	DeferCleanup(team.halt)
	DeferCleanup(leaveNothing)
})

func connect() {
	var err error
	cluster, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	Expect(err).NotTo(HaveOccurred())
	cluster.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionv1.AddToScheme, v1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, coordinationv1.AddToScheme,
	} {
		Expect(add(scheme)).To(Succeed())
	}
	api, err = client.NewWithWatch(cluster, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
}

// leaveNothing takes away what specs have made.
func leaveNothing(ctx SpecContext) {
	list := &corev1.NamespaceList{}
	Expect(api.List(ctx, list, client.HasLabels{ours})).To(Succeed())
	for n := range list.Items {
		Expect(client.IgnoreNotFound(api.Delete(ctx, &list.Items[n]))).To(Succeed())
	}
	Eventually(func() ([]corev1.Namespace, error) {
		err := api.List(ctx, list, client.HasLabels{ours})
		return list.Items, err
	}).WithPolling(250 * time.Millisecond).Should(BeEmpty())
}

// namespace is one that the operator looks after.
func namespace(ctx context.Context) string {
	GinkgoHelper()
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "swarm-spread-", Labels: map[string]string{ours: "true"}}}
	Expect(api.Create(ctx, made)).To(Succeed())
	return made.Name
}

func fromRoot(elements ...string) string {
	return filepath.Join(append([]string{"..", "..", ".."}, elements...)...)
}

// measured shows how long something took, among the results of the spec.
func measured(what string, took time.Duration) {
	AddReportEntry(what, ReportEntryVisibilityAlways, fmt.Sprintf("%.1f s", took.Seconds()))
}
