// Package pool proves worker pools end to end: the operator in the cluster as `make install` leaves it, workers on real nodes in
// namespaces that enforce the restricted standard, and faults that are real: processes killed, cgroups frozen, pods deleted by force, the
// API server restarted. What counts is what workers have written down themselves, in one file that all of them append to, so that the
// order of its lines is the order of what has happened.
//
// It takes any cluster that KUBECONFIG names, if the operator is installed there, its nodes have, or can pull, WORKER_IMAGE and
// PROBE_IMAGE, and its storage class gives volumes that pods on several nodes may write to. Specs that hurt processes run only on our own
// cluster (DEVCLUSTER_DATA) and are skipped elsewhere.
package pool

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
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

// patience is for a busy machine, and for an operator whose leader has just died.
const patience = 90 * time.Second

// system is where the operator lives.
const system = "swarm-system"

// Set once, before the first spec.
var (
	api  client.Client
	core *kubernetes.Clientset // for what the other client cannot do: watches that go on, and answers of pods
)

// scene is the running spec's own namespace.
var scene *stage

func TestPool(t *testing.T) {
	if os.Getenv("KUBECONFIG") == "" {
		t.Fatal("KUBECONFIG is not set: run `make e2e`, which brings a cluster, or name one of your own")
	}
	RegisterFailHandler(Fail)
	log.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "Worker pools on real nodes")
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
	api, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	core, err = kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	awaitOperator(ctx)
	sampleUntold(ctx)
})

var _ = BeforeEach(func(ctx SpecContext) {
	scene = open(ctx)
	DeferCleanup(scene.close)
})

var _ = JustAfterEach(func(ctx SpecContext) {
	if !CurrentSpecReport().Failed() {
		return
	}
	for _, arguments := range [][]string{
		{"get", "workerpools,statefulsets,deployments,pods,configmaps", "--namespace", scene.namespace, "--output", "yaml"},
		{"get", "events", "--namespace", scene.namespace},
		{"get", "pods,leases", "--namespace", system, "--output", "wide"},
		{"logs", "--namespace", system, "--selector", "app.kubernetes.io/name=swarm-operator", "--tail", "60", "--prefix"},
	} {
		seen, err := kubectl(ctx, arguments...)
		GinkgoWriter.Println(seen, err)
	}
	for _, said := range scene.journal(ctx) {
		GinkgoWriter.Println(said)
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

// awaitOperator waits until both replicas are ready and one leads.
func awaitOperator(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		deployed := &appsv1.Deployment{}
		g.Expect(api.Get(ctx, client.ObjectKey{Namespace: system, Name: "swarm-operator"}, deployed)).To(Succeed())
		g.Expect(deployed.Status.ObservedGeneration).To(Equal(deployed.Generation))
		g.Expect(deployed.Status.ReadyReplicas).To(BeEquivalentTo(2))
		g.Expect(deployed.Status.Replicas).To(BeEquivalentTo(2), "those of before are gone")
		g.Expect(leads(ctx, deployed)).To(BeTrue())
	}).WithContext(ctx).Should(Succeed(), "is the operator installed? make install KUBECONFIG=...")
}

// leads tells whether the leader is a pod that exists.
func leads(ctx context.Context, deployed *appsv1.Deployment) (bool, error) {
	pods := &corev1.PodList{}
	if err := api.List(ctx, pods, client.InNamespace(system), client.MatchingLabels(deployed.Spec.Selector.MatchLabels)); err != nil {
		return false, err
	}
	holder := leader(ctx)
	for _, pod := range pods.Items {
		if pod.Name == holder {
			return true, nil
		}
	}
	return false, nil
}

// createNamespace makes a namespace that refuses every pod below the restricted standard.
func createNamespace(ctx context.Context) string {
	GinkgoHelper()
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "swarm-e2e-pool-",
		Labels:       map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	Expect(api.Create(ctx, made)).To(Succeed())
	return made.Name
}
