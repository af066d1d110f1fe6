// Package namespaced proves the operator for one namespace, end to end: somebody who is admin there and nowhere else installs it from
// deploy/kustomize/envs/namespaced, beside the operator of the whole cluster that `make install` has left, which is told to keep out.
//
// It takes any cluster that KUBECONFIG names, if the operator is installed there and its nodes have, or can pull, PROBE_IMAGE. The images are
// those of that installation. When it ends, that operator has the whole cluster again.
package namespaced

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

const (
	// system is where the operator of the whole cluster lives.
	system = "swarm-system"
	// own is the label of namespaces that have an operator of their own, as docs/install.md has it.
	own = "swarm.io/own-operator"
)

// api reads and writes as the user of the cluster. Set once, before the first spec.
var api client.Client

func TestNamespaced(t *testing.T) {
	if os.Getenv("KUBECONFIG") == "" {
		t.Fatal("KUBECONFIG is not set: run `make e2e`, which brings a cluster, or name one of your own")
	}
	RegisterFailHandler(Fail)
	log.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(90 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "An operator for one namespace")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	Expect(err).NotTo(HaveOccurred())
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		Expect(add(known)).To(Succeed())
	}
	api, err = client.New(config, client.Options{Scheme: known})
	Expect(err).NotTo(HaveOccurred())
	keepOut(ctx)
})

// keepOut has the operator of the whole cluster leave alone what has one of its own, until the suite ends.
func keepOut(ctx context.Context) {
	GinkgoHelper()
	const key = "SWARM_CONTROLLER_NAMESPACE_SELECTOR"
	set := func(ctx context.Context, change string) {
		GinkgoHelper()
		kubectl(ctx, "set", "env", "--namespace", system, "deployment/swarm-operator", change)
		kubectl(ctx, "rollout", "status", "--namespace", system, "deployment/swarm-operator", "--timeout=90s")
	}
	set(ctx, key+"={matchExpressions: [{key: "+own+", operator: DoesNotExist}]}")
	DeferCleanup(func(ctx SpecContext) { set(ctx, key+"-") })
}

// kubectl runs the real program, as a user would.
func kubectl(ctx context.Context, arguments ...string) string {
	GinkgoHelper()
	output, err := exec.CommandContext(ctx, "kubectl", arguments...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "kubectl %v: %s", arguments, output)
	return string(output)
}

func fromRoot(elements ...string) string {
	GinkgoHelper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", "..", ".."}, elements...)...))
	Expect(err).NotTo(HaveOccurred())
	return path
}

// namespace is one of the spec's own that refuses every pod below the restricted standard.
func namespace(ctx context.Context, labels map[string]string) string {
	GinkgoHelper()
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "swarm-tenant-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	maps.Copy(made.Labels, labels)
	Expect(api.Create(ctx, made)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(api.DeleteAllOf(ctx, &v1alpha1.Swarm{}, client.InNamespace(made.Name)))).To(Succeed())
		Eventually(func(ctx context.Context) ([]v1alpha1.Swarm, error) { // before the operator that has to let them go
			left := &v1alpha1.SwarmList{}
			err := api.List(ctx, left, client.InNamespace(made.Name))
			return left.Items, err
		}).WithContext(ctx).Should(BeEmpty())
		Expect(api.Delete(ctx, made)).To(Succeed())
	})
	return made.Name
}

// A tenant is admin of one namespace, and nothing else.
type tenant struct{ in string }

func newTenant(ctx context.Context) tenant {
	GinkgoHelper()
	t := tenant{namespace(ctx, map[string]string{own: ""})}
	Expect(api.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.in, Name: "admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: t.user()}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
	})).To(Succeed())
	return t
}

func (t tenant) user() string { return "admin-of-" + t.in }

// kubectl is what the tenant types.
func (t tenant) kubectl(ctx context.Context, arguments ...string) string {
	GinkgoHelper()
	return kubectl(ctx, append([]string{"--as", t.user(), "--namespace", t.in}, arguments...)...)
}

// overlay is all that a tenant writes: the namespace, and where images are.
func (t tenant) overlay(ctx context.Context) string {
	GinkgoHelper()
	installed := &appsv1.Deployment{}
	Expect(api.Get(ctx, client.ObjectKey{Namespace: system, Name: "swarm-operator"}, installed)).To(Succeed())
	container, folder := installed.Spec.Template.Spec.Containers[0], GinkgoT().TempDir()
	base, err := filepath.Rel(folder, fromRoot("deploy", "kustomize", "envs", "namespaced"))
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
`, t.in, base, container.Image, agentImage(container))
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
