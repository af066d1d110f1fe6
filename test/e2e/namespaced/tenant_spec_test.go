package namespaced

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

var _ = Describe("An admin of one namespace", func() {
	It("installs the operator there, which works for them and touches nothing else [R27]", func(ctx SpecContext) {
		testcluster.MustKubectl(ctx, "apply", "--server-side", "--force-conflicts", "--kustomize",
			testcluster.FromRoot("deploy", "kustomize", "envs", "namespaced", "cluster"))
		tenant, elsewhere := newTenant(ctx), namespace(ctx, nil)
		tenant.install(ctx)

		By("work is done there")
		Expect(api.Create(ctx, newSwarm(tenant.namespace))).To(Succeed())
		tenant.kubectl(ctx, "wait", "swarm/crew", "--for=condition=Ready", "--timeout=60s")
		Expect(api.Create(ctx, task(tenant.namespace))).To(Succeed())
		tenant.kubectl(ctx, "wait", "task/small", "--for=jsonpath={.status.phase}=Completed", "--timeout=60s")

		By("agents of others are not let in, and others have their own operator")
		Expect(api.Create(ctx, newSwarm(elsewhere))).To(Succeed())
		testcluster.MustKubectl(ctx, "wait", "--namespace", elsewhere, "swarm/crew", "--for=condition=Ready", "--timeout=60s")
		link := tenant.link(ctx)
		Expect(link.sayHello(ctx, tenant.namespace)).To(Succeed())
		Expect(link.sayHello(ctx, elsewhere)).To(MatchError(ContainSubstring("namespace %q is not this operator's", elsewhere)))

		By("it has no rights elsewhere, and never asked for any")
		for _, where := range []string{"--namespace=" + elsewhere, "--namespace=" + system, "--all-namespaces"} {
			Expect(tenant.canI(ctx, "list", "pods", where)).To(Equal("no"), where)
		}
		Expect(tenant.canI(ctx, "list", "pods", "--namespace="+tenant.namespace)).To(Equal("yes"))
		Expect(tenant.canI(ctx, "get", "nodes")).To(Equal("no"))
		said := tenant.kubectl(ctx, "logs", "--selector", "app.kubernetes.io/name=swarm-operator", "--tail", "-1")
		Expect(said).To(And(ContainSubstring("spread is off"), Not(ContainSubstring("orbidden")), Not(ContainSubstring("DATA RACE")),
			Not(ContainSubstring(`"level":"ERROR"`))))
	})
})

// install applies the overlay as the tenant, and waits as the tenant.
func (t tenant) install(ctx context.Context) {
	GinkgoHelper()
	overlay := t.overlay(ctx)
	Eventually(func(ctx context.Context) (bool, error) { // until what was added to the ClusterRole admin is known
		admin := &rbacv1.ClusterRole{}
		err := api.Get(ctx, client.ObjectKey{Name: "admin"}, admin)
		return slices.ContainsFunc(admin.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.APIGroups, "swarm.io") }), err
	}).WithContext(ctx).WithTimeout(10 * time.Second).Should(BeTrue())
	t.kubectl(ctx, "apply", "--server-side", "--kustomize", overlay)
	t.kubectl(ctx, "rollout", "status", "deployment/swarm-operator", "--timeout=60s")
}

// canI returns the answer of `kubectl auth can-i` for the tenant's operator.
func (t tenant) canI(ctx context.Context, question ...string) string {
	GinkgoHelper()
	asked := append([]string{"auth", "can-i", "--as", "system:serviceaccount:" + t.namespace + ":swarm-operator"}, question...)
	said, _ := exec.CommandContext(ctx, "kubectl", asked...).Output() // no is an exit code as well
	return strings.TrimSpace(string(said))
}

// newSwarm is a swarm of one agent.
func newSwarm(ns string) *v1alpha1.Swarm {
	return &v1alpha1.Swarm{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "crew"},
		Spec: v1alpha1.SwarmSpec{Replicas: new(int32(1)), Agents: []v1alpha1.AgentType{{
			Type:     "worker",
			Runtime:  &v1alpha1.AgentRuntime{Exec: &v1alpha1.ExecRuntime{Command: []string{"/probe", "work"}, GracePeriodSeconds: new(int32(5))}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: testcluster.ProbeImage()}}}},
		}}},
	}
}

func task(ns string) *v1alpha1.Task {
	return &v1alpha1.Task{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "small"},
		Spec: v1alpha1.TaskSpec{SwarmRef: v1alpha1.SwarmReference{Name: "crew"},
			Payload: &apiextensionsv1.JSON{Raw: []byte(`{"milliseconds": 100}`)}},
	}
}
