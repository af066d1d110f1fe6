// Package operator tests the operator as a program on a real API server: started as by `make run`, stopped by a signal, and checked by the
// state of the cluster. Pods run on simulated nodes, so nothing here needs root.
package operator

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

const system = "swarm-system"

// linkPort is where agents reach an operator, unless a spec has several. Suites share the machine with others, even with another run of
// themselves, so no port is fixed.
var linkPort = ports.Free()

// Set once, before the first spec.
var (
	clusterConfig *rest.Config
	api           client.WithWatch // reads and writes as the user of the cluster
)

func TestOperator(t *testing.T) {
	testcluster.PrepareIntegration(t, time.Minute, 50*time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "The operator as a program")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster := testcluster.Connect()
	clusterConfig, api = cluster.Config, cluster.API
	testcluster.InstallCRDs(ctx)
	err := api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}})
	Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
})

func fromRoot(elements ...string) string {
	return filepath.Join(append([]string{"..", "..", ".."}, elements...)...)
}

// startOperator starts the operator, which ends with the spec at the latest. Ports are free ones: suites share the machine.
func startOperator(environment ...string) *gexec.Session {
	GinkgoHelper()
	return programOf(system, environment...)
}

// programOf is a program with that namespace as its own.
func programOf(home string, environment ...string) *gexec.Session {
	GinkgoHelper()
	session := testcluster.StartOperator(home, append([]string{"SWARM_METRICS_ENABLED=false", "SWARM_WEBHOOK_ENABLED=false",
		"SWARM_LINK_PORT=" + linkPort}, environment...)...)
	DeferCleanup(func() { session.Terminate().Wait(10 * time.Second) })
	return session
}

// namespace is one of the spec's own.
func namespace(ctx context.Context, labels map[string]string) string {
	GinkgoHelper()
	object := testcluster.KeptNamespace(ctx, api, "swarm-operator-", labels)
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(api.Delete(ctx, object))).To(Succeed())
		releaseSwarms(ctx, object.Name)
	})
	return object.Name
}

// releaseSwarms deletes swarms whose operator has ended with its spec, and removes their finalizers. They would stay forever, and block
// later suites on this cluster. Deletion comes first: the operator of the next spec adds its finalizer to swarms that are not being
// deleted.
func releaseSwarms(ctx context.Context, ns string) {
	GinkgoHelper()
	swarms := &v1alpha1.SwarmList{}
	Expect(api.List(ctx, swarms, client.InNamespace(ns))).To(Succeed())
	for n := range swarms.Items {
		Expect(client.IgnoreNotFound(api.Delete(ctx, &swarms.Items[n]))).To(Succeed())
		released := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		Expect(client.IgnoreNotFound(api.Patch(ctx, &swarms.Items[n], released))).To(Succeed())
	}
}

// sample returns the Swarm of deploy/samples, without features that need real nodes.
func sample(ctx context.Context, ns string) *v1alpha1.Swarm {
	GinkgoHelper()
	return createSampleNamed(ctx, ns, "research")
}

// createSampleNamed is the sample by any name.
func createSampleNamed(ctx context.Context, ns, name string) *v1alpha1.Swarm {
	GinkgoHelper()
	text, err := os.ReadFile(fromRoot("deploy", "samples", "swarm.yaml"))
	Expect(err).NotTo(HaveOccurred())
	swarm := &v1alpha1.Swarm{}
	Expect(yaml.UnmarshalStrict(text, swarm)).To(Succeed())
	swarm.Namespace, swarm.Name = ns, name
	swarm.Spec.Agents[0].Storage = nil
	Expect(api.Create(ctx, swarm)).To(Succeed())
	return swarm
}

// agents are the names of a namespace's Agents.
func agents(ctx context.Context, ns string) ([]string, error) {
	list := &v1alpha1.AgentList{}
	err := api.List(ctx, list, client.InNamespace(ns))
	names := make([]string, 0, len(list.Items))
	for _, agent := range list.Items {
		names = append(names, agent.Name)
	}
	return names, err
}

// isDeleted reports whether an object no longer exists.
func isDeleted(ctx context.Context, object client.Object) bool {
	return apierrors.IsNotFound(api.Get(ctx, client.ObjectKeyFromObject(object), object))
}
