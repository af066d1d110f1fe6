package operator

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// Where only an operator for the whole cluster is installed.
var _ = Describe("The roles for users", Serial, func() {
	status := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"message":"forged"}}`))

	BeforeEach(func(ctx SpecContext) {
		// An administrator's part for operators of single namespaces lets admins write statuses.
		tenant := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "swarm-operator-tenant"}}
		Expect(client.IgnoreNotFound(api.Delete(ctx, tenant))).To(Succeed())
		applyManifests(ctx, "users")
	})

	DescribeTable("let users of a namespace", func(ctx SpecContext, role string, edits bool) {
		ns, elsewhere := namespace(ctx, nil), namespace(ctx, nil)
		user := newBoundClient(ctx, ns, role)
		Eventually(func(ctx context.Context) error { // the roles of Kubernetes are added to by a controller
			return user.List(ctx, &v1alpha1.SwarmList{}, client.InNamespace(ns))
		}).WithContext(ctx).Should(Succeed())
		task := &v1alpha1.Task{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "report"},
			Spec:       v1alpha1.TaskSpec{SwarmRef: v1alpha1.SwarmReference{Name: "research"}},
		}
		if edits {
			Eventually(func(ctx context.Context) error { return user.Create(ctx, task.DeepCopy()) }).WithContext(ctx).Should(Succeed())
			swarm := &v1alpha1.Swarm{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "research"}, Spec: sample(ctx, elsewhere).Spec}
			Expect(user.Create(ctx, swarm)).To(Succeed())
			Expect(user.Delete(ctx, swarm)).To(Succeed())
		} else {
			Expect(user.Create(ctx, task.DeepCopy())).To(Satisfy(apierrors.IsForbidden))
			Expect(api.Create(ctx, task.DeepCopy())).To(Succeed())
		}
		Expect(user.Status().Patch(ctx, task, status)).To(Satisfy(apierrors.IsForbidden))
		Expect(user.List(ctx, &v1alpha1.SwarmList{}, client.InNamespace(elsewhere))).To(Satisfy(apierrors.IsForbidden))
	},
		Entry("who are admin there create swarms and tasks, and write no status", "admin", true),
		Entry("who edit there create swarms and tasks, and write no status", "edit", true),
		Entry("who view there see them", "view", false),
	)
})

// newBoundClient is a client of a user who has a ClusterRole in a namespace.
func newBoundClient(ctx context.Context, ns, role string) client.Client {
	GinkgoHelper()
	name := role + "-of-" + ns
	Expect(api.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	})).To(Succeed())
	config := rest.CopyConfig(clusterConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	made, err := client.New(config, client.Options{Scheme: api.Scheme(), Mapper: api.RESTMapper()})
	Expect(err).NotTo(HaveOccurred())
	return made
}
