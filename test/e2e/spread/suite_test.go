// Package spread proves on real nodes that workloads are split between spot and on-demand: the operator in the cluster as `make install`
// leaves it, asked by the API server through its Service, pods that real kubelets run, and faults that are real: no operator at all, its
// leader killed, a node drained, certificates renewed while pods are made.
//
// It takes any cluster that KUBECONFIG names, if the operator is installed there with its standard configuration, if there are a node
// labelled karpenter.sh/capacity-type=spot, just one, and others that are not, and if they have, or can pull, PROBE_IMAGE. Specs that hurt
// processes run only on our own cluster (DEVCLUSTER_DATA) and are skipped elsewhere.
package spread

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

const (
	// patience is for a busy machine, and for moves that come in steps with pauses between them.
	patience = 90 * time.Second
	// brief is how long something is watched that must not change.
	brief = 2 * time.Second
)

// Set once, before the first spec.
var (
	api   client.WithWatch
	core  *kubernetes.Clientset // for what the other client cannot do: what the API server counts
	nodes map[string]string     // the class of each node
)

// namespace is the running spec's own.
var namespace string

func TestSpread(t *testing.T) {
	if os.Getenv("KUBECONFIG") == "" {
		t.Fatal("KUBECONFIG is not set: run `make e2e`, which brings a cluster, or name one of your own")
	}
	RegisterFailHandler(Fail)
	log.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "Workloads on spot and on-demand nodes")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	loading := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(loading, nil).ClientConfig()
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, clientscheme.AddToScheme} {
		Expect(add(scheme)).To(Succeed())
	}
	api, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	core, err = kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	nodes = classes(ctx)
	Expect(spotNode()).NotTo(BeEmpty())
	awaitOperator(ctx)
})

var _ = BeforeEach(func(ctx SpecContext) {
	namespace = createNamespace(ctx)
	DeferCleanup(func(ctx SpecContext, name string) {
		Expect(api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}, namespace)
})

var _ = JustAfterEach(func(ctx SpecContext) {
	if !CurrentSpecReport().Failed() {
		return
	}
	for _, arguments := range [][]string{
		{"get", "deployments,statefulsets,poddisruptionbudgets", "--namespace", namespace, "--output", "yaml"},
		{"get", "pods", "--namespace", namespace, "--output", `custom-columns=NAME:.metadata.name,NODE:.spec.nodeName,PHASE:.status.phase,CLASS:.metadata.annotations.swarm\.io/spread-class,NUMBER:.metadata.annotations.swarm\.io/spread-number`},
		{"get", "events", "--namespace", namespace},
		{"get", "pods,leases", "--namespace", system, "--output", "wide"},
		{"logs", "--namespace", system, "--selector", "app.kubernetes.io/name=swarm-operator", "--tail", "60", "--prefix"},
	} {
		seen, err := kubectl(ctx, arguments...)
		GinkgoWriter.Println(seen, err)
	}
})

// raceless looks for what the race detector says, in an operator that is built with it.
func raceless(ctx SpecContext) {
	for _, more := range [][]string{nil, {"--previous", "--ignore-errors"}} {
		said, err := kubectl(ctx, append([]string{"logs", "--tail", "-1", "--namespace", system, "--selector", "app.kubernetes.io/name=swarm-operator"}, more...)...)
		if err != nil && !strings.Contains(said, "previous terminated container") {
			GinkgoWriter.Println(err)
		}
		Expect(said).NotTo(ContainSubstring("DATA RACE"))
	}
}

var _ = AfterEach(raceless)

// createNamespace makes a namespace that refuses every pod below the restricted standard.
func createNamespace(ctx context.Context) string {
	GinkgoHelper()
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "swarm-e2e-spread-",
		Labels:       map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	Expect(api.Create(ctx, made)).To(Succeed())
	// Until its service account is there, a namespace refuses pods, and controllers try again later and later.
	account := &corev1.ServiceAccount{}
	Eventually(api.Get).WithContext(ctx).WithArguments(client.ObjectKey{Namespace: made.Name, Name: "default"}, account).Should(Succeed())
	return made.Name
}

func fromRoot(elements ...string) string {
	return filepath.Join(append([]string{"..", "..", ".."}, elements...)...)
}

// kubectl runs the real program, as a user would who has our plugin.
func kubectl(ctx context.Context, arguments ...string) (string, error) {
	programs, err := filepath.Abs(fromRoot("bin"))
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, "kubectl", arguments...)
	command.Env = append(os.Environ(), "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	output, err := command.CombinedOutput()
	return string(output), err
}

// said is what kubectl says when it succeeds.
func said(ctx context.Context, arguments ...string) string {
	GinkgoHelper()
	output, err := kubectl(ctx, arguments...)
	Expect(err).NotTo(HaveOccurred(), "kubectl %s: %s", strings.Join(arguments, " "), output)
	return output
}

// measured shows a number among the results of the spec.
func measured(what string, value any) { AddReportEntry(what, ReportEntryVisibilityAlways, value) }
