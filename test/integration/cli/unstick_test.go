package cli

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

var _ = Describe("kubectl swarm unstick", func() {
	It("frees a namespace whose deletion waits for a Swarm, because no operator runs", func(ctx SpecContext) {
		in := newNamespace(ctx)
		swarm := heldSwarm(ctx, in, "research")
		whole := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in}}
		Expect(api.Delete(ctx, whole)).To(Succeed())
		Eventually(waitsForSwarm).WithContext(ctx).WithArguments(whole).Should(BeTrue())

		Expect(askIn(in, "unstick", "research", "--dry-run").out).To(Equal("swarm.swarm.io/research in namespace " + in + " would be let go\n"))
		Expect(api.Get(ctx, client.ObjectKeyFromObject(swarm), swarm)).To(Succeed())
		Expect(swarm.Finalizers).To(ConsistOf(v1alpha1.Finalizer))

		Expect(askIn(in, "unstick", "research")).To(Equal(answer{0, "swarm.swarm.io/research in namespace " + in + " let go\n", ""}))
		Eventually(gone).WithContext(ctx).WithArguments(whole).Should(BeTrue())
	})

	It("says in one line why it frees nothing", func(ctx SpecContext) {
		allowToList(ctx, "reader")
		running, deleted := heldSwarm(ctx, namespace, "running"), heldSwarm(ctx, namespace, "deleted")
		Expect(api.Delete(ctx, deleted)).To(Succeed())
		for line, said := range map[string]string{
			"unstick running":             `swarm "running" is not being deleted: kubectl delete swarm running comes first`,
			"unstick missing":             `there is no swarm "missing" in namespace "` + namespace + `"`,
			"unstick --as stranger":       `User "stranger" cannot list resource "swarms"`,
			"unstick deleted --as reader": `User "reader" cannot patch resource "swarms"`,
		} {
			got := ask(strings.Fields(line)...)
			Expect(got.code).To(Equal(1), line)
			Expect(got.out).To(BeEmpty(), line)
			Expect(got.said).To(And(HavePrefix("kubectl swarm: "), ContainSubstring(said), HaveSuffix("\n")), line)
			Expect(strings.Count(got.said, "\n")).To(Equal(1), line)
			if strings.Contains(line, "--as") {
				Expect(got.said).To(ContainSubstring("ask for that right"), line)
			}
		}
		for _, swarm := range []*v1alpha1.Swarm{running, deleted} {
			Expect(api.Get(ctx, client.ObjectKeyFromObject(swarm), swarm)).To(Succeed())
			Expect(swarm.Finalizers).To(ConsistOf(v1alpha1.Finalizer), swarm.Name)
		}
	})
})

// heldSwarm is a Swarm as an operator leaves it that is gone: with its finalizer.
func heldSwarm(ctx context.Context, in, name string) *v1alpha1.Swarm {
	GinkgoHelper()
	swarm := &v1alpha1.Swarm{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name, Finalizers: []string{v1alpha1.Finalizer}},
		Spec:       v1alpha1.SwarmSpec{Agents: []v1alpha1.AgentType{{Type: "worker", Template: podTemplate(nil)}}},
	}
	Expect(api.Create(ctx, swarm)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(api.Delete(ctx, swarm))).To(Succeed())
		released := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		Expect(client.IgnoreNotFound(api.Patch(ctx, swarm, released))).To(Succeed())
	})
	return swarm
}

// waitsForSwarm reports whether finalizers of Swarms keep the namespace according to the API server.
func waitsForSwarm(ctx context.Context, namespace *corev1.Namespace) (bool, error) {
	err := api.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
	for _, condition := range namespace.Status.Conditions {
		if condition.Type == corev1.NamespaceFinalizersRemaining && condition.Status == corev1.ConditionTrue {
			return strings.Contains(condition.Message, v1alpha1.Finalizer), err
		}
	}
	return false, err
}

// allowToList lets a user see only the Swarms of the suite's namespace.
func allowToList(ctx context.Context, user string) {
	GinkgoHelper()
	named := metav1.ObjectMeta{Namespace: namespace, Name: "see-swarms"}
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: named, Rules: []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"swarms"}, Verbs: []string{"list"}}}},
		&rbacv1.RoleBinding{
			ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: named.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		},
	} {
		Expect(api.Create(ctx, object)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, object)).To(Succeed()) })
	}
	Eventually(func() string { return ask("unstick", "--as", user).said }).Should(Equal("no Swarm is stuck\n"), "the right counts")
}

func gone(ctx context.Context, object client.Object) bool {
	return apierrors.IsNotFound(api.Get(ctx, client.ObjectKeyFromObject(object), object))
}
