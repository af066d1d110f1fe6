// Package policies tests deploy/kustomize/components/policies on a real API server: what users may request from the operator, what the
// account of the operator may write, and that the operator can do all its work with that. The operator runs as a program with the token of
// its own service account; the rest of the installation is what deploy/kustomize makes of another namespace. Pods are on simulated nodes.
package policies

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

const (
	// operatorNamespace is where the operator is installed. It is not the namespace that the manifests name.
	operatorNamespace = "swarm-policies-home"
	// suiteLabel labels the namespaces in which the operator works.
	suiteLabel = "policies.suite.swarm.io/namespace"
)

// Set once, before the first spec.
var (
	cluster     testcluster.Cluster
	api         client.WithWatch // reads and writes as the user of the cluster
	webhookPort = ports.Free()
)

func TestPolicies(t *testing.T) {
	testcluster.PrepareIntegration(t, 2*time.Minute, 50*time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "Policies")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster = testcluster.Connect()
	api = cluster.API
	testcluster.InstallCRDs(ctx)
	overlay := installation()
	testcluster.MustKubectl(ctx, "apply", "--server-side", "--force-conflicts", "--kustomize", overlay)
	DeferCleanup(func(ctx SpecContext) {
		testcluster.MustKubectl(ctx, "delete", "--ignore-not-found", "mutatingwebhookconfigurations.admissionregistration.k8s.io",
			"swarm-operator")
		testcluster.MustKubectl(ctx, "delete", "--ignore-not-found", "--kustomize", overlay)
	})
	awaitPolicies(ctx)
})

// installation writes an overlay of deploy/kustomize in another namespace, whose webhooks are called on this machine. It runs nothing,
// since simulated nodes cannot, and leaves the CRDs alone, so that deleting it does not delete them.
func installation() string {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	base, err := filepath.Rel(folder, testcluster.FromRoot("deploy", "kustomize"))
	Expect(err).NotTo(HaveOccurred())
	text := fmt.Sprintf(`namespace: %s
resources: [%s]
replicas: [{name: swarm-operator, count: 0}]
patches:
- target: {kind: CustomResourceDefinition}
  patch: "{$patch: delete, apiVersion: any, kind: any, metadata: {name: any}}"
- target: {kind: MutatingWebhookConfiguration}
  patch: |
    - {op: replace, path: /webhooks/0/clientConfig, value: {url: "https://127.0.0.1:%s/pods"}}
    - {op: replace, path: /webhooks/1/clientConfig, value: {url: "https://127.0.0.1:%s/spread"}}
`, operatorNamespace, base, webhookPort, webhookPort)
	Expect(os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600)).To(Succeed())
	return folder
}

// awaitPolicies waits until the API server enforces both policies.
func awaitPolicies(ctx context.Context) {
	GinkgoHelper()
	ns := namespace(ctx)
	operator, _ := newPrivilegedAccount(ctx)
	requester := newAuthor(ctx, ns)
	Eventually(func(g Gomega) {
		g.Expect(operator.Create(ctx, deploymentIn(ns), client.DryRunAll)).To(MatchError(ContainSubstring("operator-fence.swarm.io")))
		g.Expect(requester.Create(ctx, swarmIn(ns), client.DryRunAll)).To(MatchError(ContainSubstring("requester.swarm.io")))
	}).WithContext(ctx).Should(Succeed())
}

// namespace creates a namespace in which the operator works, until the spec or the suite ends.
func namespace(ctx context.Context) string {
	GinkgoHelper()
	return testcluster.NewNamespace(ctx, api, "swarm-policies-", map[string]string{suiteLabel: "true"})
}

// clientAs returns a client that acts as a user.
func clientAs(user string, groups ...string) client.Client {
	GinkgoHelper()
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	made, err := client.New(config, client.Options{Scheme: api.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return made
}

// A right is a verb on a resource, such as statefulsets/scale of apps, and on certain names of it if there are any.
type right struct {
	verb, group, resource string
	names                 []string
}

func (r right) rule() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{r.verb}, APIGroups: []string{r.group}, Resources: []string{r.resource}, ResourceNames: r.names}
}

// newAuthor returns a new user who may write our kinds in a namespace, and has these rights beside.
func newAuthor(ctx context.Context, ns string, rights ...right) client.Client {
	GinkgoHelper()
	allRights := slices.Concat(rights, []right{{verb: "get", group: "swarm.io", resource: "*"}})
	for _, verb := range []string{"create", "update", "patch"} {
		for _, resource := range []string{"swarms", "workerpools", "tasks"} {
			allRights = append(allRights, right{verb: verb, group: "swarm.io", resource: resource})
		}
	}
	return holder(ctx, ns, allRights...)
}

// holder returns a new user with rights in a namespace, once the API server knows them.
func holder(ctx context.Context, ns string, rights ...right) client.Client {
	GinkgoHelper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "author-"}}
	for _, right := range append(rights, right{verb: "get", group: "", resource: "limitranges"}) {
		role.Rules = append(role.Rules, right.rule())
	}
	Expect(api.Create(ctx, role)).To(Succeed())
	Expect(api.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: role.Name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	})).To(Succeed())
	user := clientAs(role.Name)
	known := client.ObjectKey{Namespace: ns, Name: "none"}
	Eventually(func() error { return client.IgnoreNotFound(user.Get(ctx, known, &corev1.LimitRange{})) }).WithContext(ctx).Should(Succeed())
	return user
}

// newPrivilegedAccount returns the account of an operator elsewhere that RBAC allows everything, so that only the fence can refuse, and its
// namespace.
func newPrivilegedAccount(ctx context.Context) (account client.Client, ns string) {
	GinkgoHelper()
	ns = namespace(ctx)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "swarm-operator"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	Expect(api.Create(ctx, binding)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(api.Delete(ctx, binding))).To(Succeed()) })
	account = clientAs("system:serviceaccount:"+ns+":swarm-operator", "system:serviceaccounts", "system:serviceaccounts:"+ns)
	Eventually(func() error { return account.List(ctx, &corev1.SecretList{}, client.InNamespace(operatorNamespace)) }).WithContext(ctx).
		Should(Succeed())
	return account, ns
}

// template is that of pods which run nothing.
func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "w"}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers:                    []corev1.Container{{Name: "any", Image: "example.test/any:1"}},
		},
	}
}

func deploymentIn(ns string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: template().Labels}, Template: template(),
		},
	}
}

func statefulSetIn(ns string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "w"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(0)), ServiceName: "w", Selector: &metav1.LabelSelector{MatchLabels: template().Labels}, Template: template(),
		},
	}
}
