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
		ns := newNamespace(ctx)
		swarm := newSwarmWithFinalizer(ctx, ns, "research")
		whole := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
		Expect(api.Delete(ctx, whole)).To(Succeed())
		Eventually(isHeldBySwarm).WithContext(ctx).WithArguments(whole).Should(BeTrue())

		Expect(runCommandIn(ns, "unstick", "research", "--dry-run").out).To(Equal("swarm.swarm.io/research in namespace " + ns +
			" would be released\n"))
		Expect(api.Get(ctx, client.ObjectKeyFromObject(swarm), swarm)).To(Succeed())
		Expect(swarm.Finalizers).To(ConsistOf(v1alpha1.Finalizer))

		Expect(runCommandIn(ns, "unstick", "research")).To(Equal(commandResult{0, "swarm.swarm.io/research in namespace " + ns + " released\n",
			""}))
		Eventually(isDeleted).WithContext(ctx).WithArguments(whole).Should(BeTrue())
	})

	It("says in one line why it frees nothing", func(ctx SpecContext) {
		allowToList(ctx, "reader")
		running, deleted := newSwarmWithFinalizer(ctx, namespace, "running"), newSwarmWithFinalizer(ctx, namespace, "deleted")
		Expect(api.Delete(ctx, deleted)).To(Succeed())
		for line, said := range map[string]string{
			"unstick running":             `swarm "running" is not being deleted: kubectl delete swarm running comes first`,
			"unstick missing":             `there is no swarm "missing" in namespace "` + namespace + `"`,
			"unstick --as stranger":       `User "stranger" cannot list resource "swarms"`,
			"unstick deleted --as reader": `User "reader" cannot patch resource "swarms"`,
		} {
			got := runCommand(strings.Fields(line)...)
			Expect(got.code).To(Equal(1), line)
			Expect(got.out).To(BeEmpty(), line)
			Expect(got.stderr).To(And(HavePrefix("kubectl swarm: "), ContainSubstring(said), HaveSuffix("\n")), line)
			Expect(strings.Count(got.stderr, "\n")).To(Equal(1), line)
			if strings.Contains(line, "--as") {
				Expect(got.stderr).To(ContainSubstring("ask for that right"), line)
			}
		}
		for _, swarm := range []*v1alpha1.Swarm{running, deleted} {
			Expect(api.Get(ctx, client.ObjectKeyFromObject(swarm), swarm)).To(Succeed())
			Expect(swarm.Finalizers).To(ConsistOf(v1alpha1.Finalizer), swarm.Name)
		}
	})
})

// newSwarmWithFinalizer is a Swarm as an operator leaves it that is gone: with its finalizer.
func newSwarmWithFinalizer(ctx context.Context, ns, name string) *v1alpha1.Swarm {
	GinkgoHelper()
	swarm := &v1alpha1.Swarm{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Finalizers: []string{v1alpha1.Finalizer}},
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

// isHeldBySwarm reports whether finalizers of Swarms keep the namespace according to the API server.
func isHeldBySwarm(ctx context.Context, namespace *corev1.Namespace) (bool, error) {
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
		&rbacv1.Role{ObjectMeta: named, Rules: []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group},
			Resources: []string{"swarms"}, Verbs: []string{"list"}}}},
		&rbacv1.RoleBinding{
			ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: named.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		},
	} {
		Expect(api.Create(ctx, object)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, object)).To(Succeed()) })
	}
	Eventually(func() string { return runCommand("unstick", "--as", user).stderr }).Should(Equal("no Swarm is stuck\n"), "the right counts")
}

func isDeleted(ctx context.Context, object client.Object) bool {
	return apierrors.IsNotFound(api.Get(ctx, client.ObjectKeyFromObject(object), object))
}
