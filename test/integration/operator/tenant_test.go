package operator

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/audit"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

var _ = Describe("For one namespace", Serial, func() {
	var ours, theirs tenant

	BeforeEach(func(ctx SpecContext) {
		applyAdministratorPart(ctx)
		ours, theirs = newTenant(ctx), newTenant(ctx)
	})

	It("an admin of it installs the operator, which works there and nowhere else, and asks for nothing that it may not have",
		func(ctx SpecContext) {
			began := time.Now()
			session := ours.operator(ctx)
			Eventually(leaseHolder).WithContext(ctx).WithArguments(ours.namespace).ShouldNot(BeEmpty())
			swarm, untouched := sample(ctx, ours.namespace), sample(ctx, theirs.namespace)
			Eventually(condition).WithContext(ctx).WithArguments(swarm).Should(ContainSubstring("6 have a ready pod"))
			Eventually(expectWelcome).WithContext(ctx).WithArguments(ours.namespace, linkDestination(ctx, ours.namespace)).Should(Succeed())
			pool(ctx, ours.namespace, v1alpha1.LayoutShared)
			workers(ctx, ours.namespace)
			Eventually(list).WithContext(ctx).WithArguments(ours.namespace,
				"lists").Should(ContainSubstring("worker-0:\n    jobs:\n      - a\n      - b\n"))
			Expect(condition(ctx, untouched)).To(BeEmpty())
			Expect(agents(ctx, theirs.namespace)).To(BeEmpty())

			Expect(api.Delete(ctx, swarm)).To(Succeed())
			Eventually(func(ctx context.Context) bool { return isDeleted(ctx, swarm) }).WithContext(ctx).Should(BeTrue())
			Expect(string(session.Err.Contents())).NotTo(ContainSubstring("orbidden"))
			Expect(ours.foreignRequests(began)).To(BeEmpty())
		})

	It("two operators stand side by side, and neither takes the agents of the other", func(ctx SpecContext) {
		ours.operator(ctx)
		theirs.operator(ctx)
		for _, one := range []tenant{ours, theirs} {
			sample(ctx, one.namespace)
			Eventually(pods).WithContext(ctx).WithArguments(one.namespace).Should(ContainElement(coder))
			Eventually(expectWelcome).WithContext(ctx).WithArguments(one.namespace, linkDestination(ctx, one.namespace)).Should(Succeed())
		}
		bundle, err := publishedSwarmCA(ctx, ours.namespace)
		Expect(err).NotTo(HaveOccurred())
		_, err = helloTrusting(ctx, theirs.namespace, linkDestination(ctx, ours.namespace), bundle)
		Expect(err).To(MatchError(ContainSubstring("namespace %q is not this operator's", theirs.namespace)))
	})

	DescribeTable("an operator works in a namespace of others, whose admin allows it,", func(ctx SpecContext, alsoAtHome bool) {
		began, lent := time.Now(), ours.borrowNamespace(ctx)
		works := []string{lent}
		if alsoAtHome {
			works = append(works, ours.namespace)
		}
		session := ours.operator(ctx, "SWARM_CONTROLLER_NAMESPACES="+strings.Join(works, ","))
		untouched := []string{theirs.namespace}
		if !alsoAtHome {
			untouched = append(untouched, ours.namespace)
		}
		for _, ns := range append(works, untouched...) {
			sample(ctx, ns)
		}
		for _, ns := range works {
			Eventually(pods).WithContext(ctx).WithArguments(ns).Should(ContainElement(coder))
			Eventually(expectWelcome).WithContext(ctx).WithArguments(ns, linkDestination(ctx, ns)).Should(Succeed())
		}
		for _, ns := range untouched {
			Expect(agents(ctx, ns)).To(BeEmpty())
		}
		Expect(string(session.Err.Contents())).NotTo(ContainSubstring("orbidden"))
		Expect(ours.foreignRequests(began, lent)).To(BeEmpty())
	},
		Entry("beside its own", true),
		Entry("and not in its own", false),
	)

	It("a pod that is gone is not an agent any more", func(ctx SpecContext) {
		ours.operator(ctx)
		swarm := sample(ctx, ours.namespace)
		Eventually(pods).WithContext(ctx).WithArguments(ours.namespace).Should(ContainElement(coder))
		Eventually(expectWelcome).WithContext(ctx).WithArguments(ours.namespace, linkDestination(ctx, ours.namespace)).Should(Succeed())
		to := linkDestination(ctx, ours.namespace)
		old, err := requestProjectedToken(ctx, ours.namespace)
		Expect(err).NotTo(HaveOccurred())
		bundle, err := publishedSwarmCA(ctx, ours.namespace)
		Expect(err).NotTo(HaveOccurred())
		Expect(api.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: swarm.Namespace, Name: coder}},
			client.GracePeriodSeconds(0))).To(Succeed())
		Eventually(func(ctx context.Context) error {
			_, err := sendHello(ctx, credential{ours.namespace, old}, to, bundle)
			return err
		}).WithContext(ctx).Should(MatchError(ContainSubstring("its pod is gone")))
		Eventually(expectWelcome).WithContext(ctx).WithArguments(ours.namespace, to).Should(Succeed())
	})

	It("spread is not supported, and a swarm that wants it says so", func(ctx SpecContext) {
		session := ours.operator(ctx)
		swarm := sample(ctx, ours.namespace)
		change(ctx, swarm, func() { swarm.Spec.Spread = &v1alpha1.Spread{SpotPercentage: new(int32(50))} })
		Eventually(func(ctx context.Context) (*metav1.Condition, error) {
			err := api.Get(ctx, client.ObjectKeyFromObject(swarm), swarm)
			return meta.FindStatusCondition(swarm.Status.Conditions, v1alpha1.ConditionDegraded), err
		}).WithContext(ctx).Should(HaveValue(And(HaveField("Reason", string(v1alpha1.ReasonNotSupported)),
			HaveField("Message", ContainSubstring("controller.namespaces")))))
		Expect(string(session.Err.Contents())).To(ContainSubstring("spread is off"))
	})

	It("layout PerWorker is not supported, and a pool that wants it says so", func(ctx SpecContext) {
		ours.operator(ctx)
		pool(ctx, ours.namespace, v1alpha1.LayoutPerWorker)
		workers(ctx, ours.namespace)
		asked := &v1alpha1.WorkerPool{ObjectMeta: metav1.ObjectMeta{Namespace: ours.namespace, Name: "cameras"}}
		Eventually(func(ctx context.Context) (*metav1.Condition, error) {
			err := api.Get(ctx, client.ObjectKeyFromObject(asked), asked)
			return meta.FindStatusCondition(asked.Status.Conditions, v1alpha1.ConditionReady), err
		}).WithContext(ctx).Should(HaveValue(And(HaveField("Reason", string(v1alpha1.ReasonNotSupported)),
			HaveField("Message", ContainSubstring("create another with Shared")))))
		Expect(api.Delete(ctx, asked)).To(Succeed())
		Eventually(func(ctx context.Context) bool { return isDeleted(ctx, asked) }).WithContext(ctx).Should(BeTrue())
		pool(ctx, ours.namespace, v1alpha1.LayoutShared)
		Eventually(list).WithContext(ctx).WithArguments(ours.namespace, "lists").Should(ContainSubstring("worker-0:"))
	})

	It("the introspection API answers callers who may see it, by their own right to ask", func(ctx SpecContext) {
		ours.operator(ctx)
		window := newAPIClient(ours.apiPort)
		reader, stranger := token(ctx, ours.namespace, "reader"), token(ctx, ours.namespace, "stranger")
		allowIn(ctx, ours.namespace, "reader", "swarms", "workerpools")
		cameras(ctx, ours.namespace)
		Eventually(window.mustGet).WithContext(ctx).WithArguments("/v1/pools?namespace="+ours.namespace,
			reader).Should(ContainSubstring(`"name":"cameras"`))
		Expect(window.mustRefuse(ctx, "/v1/pools?namespace="+ours.namespace, "no-token-at-all")).To(HavePrefix("401 "))
		Expect(window.mustRefuse(ctx, "/v1/pools?namespace="+ours.namespace, stranger)).To(And(HavePrefix("403 "),
			ContainSubstring("system:serviceaccount:%s:stranger", ours.namespace)))
		Expect(window.mustRefuse(ctx, "/v1/pools", reader)).To(HavePrefix("403 "))
		allowIn(ctx, theirs.namespace, "neighbour", "workerpools")
		Expect(window.mustRefuse(ctx, "/v1/pools/"+theirs.namespace+"/cameras", token(ctx, theirs.namespace, "neighbour"))).
			To(And(HavePrefix("404 "), ContainSubstring("is not one of this operator's: "+ours.namespace)))
		allow(ctx, "swarm-spec", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: ours.namespace, Name: "stranger"},
			rbacv1.PolicyRule{APIGroups: []string{"swarm.io"}, Resources: []string{"workerpools"}, Verbs: []string{"list"}})
		Eventually(window.mustGet).WithContext(ctx).WithArguments("/v1/pools",
			stranger).Should(ContainSubstring(`"namespace":"` + ours.namespace + `","name":"cameras"`))
	})

	It("protected metrics are served to clients that may get their path, by self reviews", func(ctx SpecContext) {
		port := ports.Free()
		session := ours.operator(ctx, "SWARM_METRICS_ENABLED=true", "SWARM_METRICS_SECURE=true", "SWARM_METRICS_PORT="+port)
		reader, stranger := token(ctx, ours.namespace, "reader"), token(ctx, ours.namespace, "stranger")
		allow(ctx, "swarm-spec", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: ours.namespace, Name: "reader"},
			rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}})
		Eventually(code).WithContext(ctx).WithArguments(metricsURL("https", port), reader).Should(Equal(http.StatusOK))
		Expect(code(ctx, metricsURL("https", port), "")).To(Equal(http.StatusUnauthorized))
		Expect(code(ctx, metricsURL("https", port), "no-token-at-all")).To(Equal(http.StatusUnauthorized))
		Expect(code(ctx, metricsURL("https", port), stranger)).To(Equal(http.StatusForbidden))
		Expect(string(session.Err.Contents())).NotTo(ContainSubstring("orbidden"))
	})
})

// A tenant is an admin of one namespace, without any other rights, who has applied the overlay there.
type tenant struct{ namespace, apiPort string }

// user is the tenant's name for the API server.
func (t tenant) user() string { return "admin-of-" + t.namespace }

func (t tenant) account() string { return "system:serviceaccount:" + t.namespace + ":swarm-operator" }

// applyAdministratorPart is what an administrator does once.
func applyAdministratorPart(ctx context.Context) {
	GinkgoHelper()
	output, err := exec.CommandContext(ctx, "kubectl", "apply", "--server-side", "--force-conflicts", "--kustomize",
		fromRoot("deploy", "kustomize", "envs", "namespaced", "cluster")).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
}

func newTenant(ctx context.Context) tenant {
	GinkgoHelper()
	t := tenant{namespace(ctx, nil), ports.Free()}
	t.applyOverlay(ctx, t.namespace, "namespaced", "replicas: [{name: swarm-operator, count: 0}]\n") // simulated nodes cannot run it
	return t
}

// borrowNamespace is a namespace whose admin has given the tenant's operator rights there, as in docs/how-to/install.md.
func (t tenant) borrowNamespace(ctx context.Context) string {
	GinkgoHelper()
	lent := namespace(ctx, nil)
	tenant{namespace: lent}.applyOverlay(ctx, lent, "namespaced/rights", fmt.Sprintf(`patches:
- target: {kind: RoleBinding, name: swarm-operator}
  patch: |
    - {op: replace, path: /subjects/0/namespace, value: %s}
`, t.namespace))
	return lent
}

// applyOverlay makes the tenant admin of the namespace, and applies an overlay there as the tenant, with these changes.
func (t tenant) applyOverlay(ctx context.Context, ns, env, changes string) {
	GinkgoHelper()
	Expect(api.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: t.user()}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
	})).To(Succeed())
	folder := GinkgoT().TempDir()
	base, err := filepath.Abs(fromRoot("deploy", "kustomize", "envs", filepath.FromSlash(env)))
	Expect(err).NotTo(HaveOccurred())
	base, err = filepath.Rel(folder, base)
	Expect(err).NotTo(HaveOccurred())
	text := fmt.Sprintf("namespace: %s\nresources: [%s]\n%s", ns, base, changes)
	Expect(os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600)).To(Succeed())
	Eventually(func(ctx context.Context) (string, error) { // until what was added to the ClusterRole admin is known
		output, err := exec.CommandContext(ctx, "kubectl", "--as", t.user(), "apply", "--server-side", "--kustomize", folder).CombinedOutput()
		return string(output), err
	}).WithContext(ctx).WithTimeout(10 * time.Second).
		Should(ContainSubstring("rolebinding.rbac.authorization.k8s.io/swarm-operator serverside-applied"))
}

// operator runs with the rights of the service account that the tenant has made, and is ready.
func (t tenant) operator(ctx context.Context, settings ...string) *gexec.Session {
	GinkgoHelper()
	health, link := ports.Free(), ports.Free()
	session := programOf(t.namespace, append([]string{"KUBECONFIG=" + t.kubeconfig(ctx), "SWARM_CONTROLLER_NAMESPACES=" + t.namespace,
		"SWARM_API_PORT=" + t.apiPort,
		"SWARM_HEALTH_PORT=" + health, "SWARM_LINK_PORT=" + link, "SWARM_LINK_ADDRESS=" + net.JoinHostPort("127.0.0.1", link)}, settings...)...)
	Eventually(code).WithContext(ctx).WithArguments("http://127.0.0.1:"+health+"/readyz", "").Should(Equal(http.StatusOK))
	return session
}

// kubeconfig is the cluster's, for the operator's service account.
func (t tenant) kubeconfig(ctx context.Context) string {
	GinkgoHelper()
	config, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	Expect(err).NotTo(HaveOccurred())
	config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo] = &clientcmdapi.AuthInfo{Token: t.requestToken(ctx, "swarm-operator")}
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*config, path)).To(Succeed())
	return path
}

// requestToken is a token of an existing service account.
func (t tenant) requestToken(ctx context.Context, name string) string {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: name}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600))}}
	Expect(api.SubResource("token").Create(ctx, account, request)).To(Succeed())
	return request.Status.Token
}

// foreignRequests are the requests of a tenant's operator, since then, that were refused, or that were about something outside of its
// namespace and of those that it was lent, beyond what the API server shows to every user.
func (t tenant) foreignRequests(since time.Time, borrowed ...string) []audit.Request {
	GinkgoHelper()
	all := t.auditRequests(since)
	Expect(all).NotTo(BeEmpty(), "the audit log has nothing of it")
	return slices.DeleteFunc(all, func(e audit.Request) bool {
		inside := e.Object.Resource == "" || slices.Contains(append(borrowed, t.namespace), e.Object.Namespace)
		return inside && e.Response.Code != http.StatusForbidden
	})
}

func (t tenant) auditRequests(since time.Time) []audit.Request {
	GinkgoHelper()
	requests, err := audit.Read(testcluster.AuditLog(), audit.Filter{Username: t.account(), Since: since})
	Expect(err).NotTo(HaveOccurred())
	return requests
}
