// Package swarm proves swarms end to end: the operator in the cluster as `make install` leaves it, two replicas, agents on real nodes
// in namespaces that enforce the restricted standard, and faults that are real: processes killed, cgroups frozen, the API server
// restarted. What counts is what agents and their code have written down themselves, not what the status says.
//
// It takes any cluster that KUBECONFIG names, if the operator is installed there and its nodes have, or can pull, PROBE_IMAGE. Specs
// that hurt processes run only on our own cluster (DEVCLUSTER_DATA) and are skipped elsewhere.
package swarm

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// patience is for a busy machine, and for an operator whose leader has just died.
const patience = 90 * time.Second

// system is where the operator lives.
const system = "swarm-system"

// Set once, before the first spec.
var api client.Client

// namespace is the running spec's own.
var namespace string

func TestSwarm(t *testing.T) {
	if os.Getenv("KUBECONFIG") == "" {
		t.Fatal("KUBECONFIG is not set: run `make e2e`, which brings a cluster, or name one of your own")
	}
	RegisterFailHandler(Fail)
	log.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "Swarms on a real node")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	loading := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(loading, nil).ClientConfig()
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, coordinationv1.AddToScheme} {
		Expect(add(scheme)).To(Succeed())
	}
	api, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	awaitOperator(ctx)
})

var _ = BeforeEach(func(ctx SpecContext) {
	namespace = createNamespace(ctx)
	DeferCleanup(func(ctx SpecContext, name string) {
		Expect(client.IgnoreNotFound(api.DeleteAllOf(ctx, &v1alpha1.Swarm{}, client.InNamespace(name)))).To(Succeed())
		Expect(api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}, namespace)
})

var _ = JustAfterEach(func(ctx SpecContext) {
	if !CurrentSpecReport().Failed() {
		return
	}
	for _, arguments := range [][]string{
		{"get", "swarms,agents,tasks,pods", "--namespace", namespace, "--output", "wide"},
		{"get", "events", "--namespace", namespace},
		{"get", "pods,leases", "--namespace", system, "--output", "wide"},
		{"logs", "--namespace", system, "--selector", "app.kubernetes.io/name=swarm-operator", "--tail", "60", "--prefix"},
	} {
		seen, err := kubectl(ctx, arguments...)
		GinkgoWriter.Println(seen, err)
	}
})

// raceless looks for what the race detector says, in programs that are built with it.
func raceless(ctx SpecContext) {
	for _, arguments := range [][]string{
		{"--namespace", system, "--selector", "app.kubernetes.io/name=swarm-operator"},
		{"--namespace", system, "--selector", "app.kubernetes.io/name=swarm-operator", "--previous", "--ignore-errors"},
		{"--namespace", namespace, "--selector", v1alpha1.LabelSwarm, "--container", "agent", "--ignore-errors"},
	} {
		said, err := kubectl(ctx, append([]string{"logs", "--tail", "-1"}, arguments...)...)
		if err != nil && !strings.Contains(said, "previous terminated container") {
			GinkgoWriter.Println(err)
		}
		Expect(said).NotTo(ContainSubstring("DATA RACE"))
	}
}

var _ = AfterEach(raceless)

// awaitOperator waits until both replicas are ready and one leads.
func awaitOperator(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		deployed := &appsv1.Deployment{}
		g.Expect(api.Get(ctx, client.ObjectKey{Namespace: system, Name: "swarm-operator"}, deployed)).To(Succeed())
		g.Expect(deployed.Status.ReadyReplicas).To(BeEquivalentTo(2))
		g.Expect(leader(ctx)).NotTo(BeEmpty())
	}).WithContext(ctx).Should(Succeed(), "is the operator installed? make install KUBECONFIG=...")
}

// createNamespace makes a namespace that refuses every pod below the restricted standard.
func createNamespace(ctx context.Context) string {
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "swarm-e2e-",
		Labels:       map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	Expect(api.Create(ctx, made)).To(Succeed())
	return made.Name
}
