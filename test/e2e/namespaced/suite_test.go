// Package namespaced tests the operator for one namespace, end to end: an admin of that namespace, without any other rights, installs it
// from deploy/kustomize/envs/namespaced, beside the cluster-wide operator of `make install`, which is configured to ignore the namespace.
//
// It runs on any cluster that KUBECONFIG names, if the operator is installed there and its nodes have, or can pull, PROBE_IMAGE. The images
// are those of that installation. When the suite ends, the cluster-wide operator covers the namespace again.
package namespaced

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

const (
	// system is where the operator of the whole cluster lives.
	system = testcluster.SystemNamespace
	// ownOperatorLabel is the label of namespaces that have their own operator, as in docs/how-to/install.md.
	ownOperatorLabel = "swarm.io/own-operator"
)

// Set once, before the first spec.
var (
	cluster testcluster.Cluster
	api     client.Client // reads and writes as the user of the cluster
)

func TestNamespaced(t *testing.T) {
	testcluster.Prepare(t, 90*time.Second)
	RunSpecs(t, "An operator for one namespace [R19/suites-pass]")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster = testcluster.Connect()
	api = cluster.API
	excludeFromClusterOperator(ctx)
})

// excludeFromClusterOperator makes the operator of the whole cluster ignore namespaces that have their own, until the suite ends.
func excludeFromClusterOperator(ctx context.Context) {
	GinkgoHelper()
	const key = "SWARM_CONTROLLER_NAMESPACE_SELECTOR"
	set := func(ctx context.Context, change string) {
		GinkgoHelper()
		testcluster.MustKubectl(ctx, "set", "env", "--namespace", system, "deployment/swarm-operator", change)
		testcluster.MustKubectl(ctx, "rollout", "status", "--namespace", system, "deployment/swarm-operator", "--timeout=90s")
	}
	set(ctx, key+"={matchExpressions: [{key: "+ownOperatorLabel+", operator: DoesNotExist}]}")
	DeferCleanup(func(ctx SpecContext) { set(ctx, key+"-") })
}

// namespace is one of the spec's own. Its swarms are deleted before the operator, which has to remove their finalizers.
func namespace(ctx context.Context, labels map[string]string) string {
	GinkgoHelper()
	name := cluster.CreateNamespace(ctx, "swarm-tenant-")
	change, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	Expect(err).NotTo(HaveOccurred())
	Expect(api.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.MergePatchType, change))).
		To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(api.DeleteAllOf(ctx, &v1alpha1.Swarm{}, client.InNamespace(name)))).To(Succeed())
		Eventually(func(ctx context.Context) ([]v1alpha1.Swarm, error) {
			left := &v1alpha1.SwarmList{}
			err := api.List(ctx, left, client.InNamespace(name))
			return left.Items, err
		}).WithContext(ctx).Should(BeEmpty())
	})
	return name
}

// A tenant is admin of one namespace, and nothing else.
type tenant struct{ namespace string }

func newTenant(ctx context.Context) tenant {
	GinkgoHelper()
	t := tenant{namespace(ctx, map[string]string{ownOperatorLabel: ""})}
	Expect(api.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: t.user()}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
	})).To(Succeed())
	return t
}

func (t tenant) user() string { return "admin-of-" + t.namespace }

// kubectl is what the tenant types.
func (t tenant) kubectl(ctx context.Context, arguments ...string) string {
	GinkgoHelper()
	return testcluster.MustKubectl(ctx, append([]string{"--as", t.user(), "--namespace", t.namespace}, arguments...)...)
}

// overlay is what a tenant writes: the namespace, and the images.
func (t tenant) overlay(ctx context.Context) string {
	GinkgoHelper()
	installed, err := cluster.OperatorDeployment(ctx)
	Expect(err).NotTo(HaveOccurred())
	container, folder := installed.Spec.Template.Spec.Containers[0], GinkgoT().TempDir()
	base, err := filepath.Rel(folder, testcluster.FromRoot("deploy", "kustomize", "envs", "namespaced"))
	Expect(err).NotTo(HaveOccurred())
	text := fmt.Sprintf(`namespace: %s
resources: [%s]
patches:
- patch: |
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: swarm-operator}
    spec:
      template:
        spec:
          containers:
          - name: operator
            image: %s
            env: [{name: AGENT_IMAGE, value: %s}]
`, t.namespace, base, container.Image, agentImage(container))
	Expect(os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600)).To(Succeed())
	return folder
}

func agentImage(of corev1.Container) string {
	for _, variable := range of.Env {
		if variable.Name == "AGENT_IMAGE" {
			return variable.Value
		}
	}
	return ""
}
