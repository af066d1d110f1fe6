package kubernetes

import (
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("A service account", func() {
	It("may do what it has been granted, and nothing before", func(ctx SpecContext) {
		account := impersonating("system:serviceaccount:" + namespace + ":default")
		listing := func(ctx context.Context) error {
			return account.List(ctx, &corev1.PodList{}, client.InNamespace(namespace))
		}
		Expect(listing(ctx)).To(Satisfy(apierrors.IsForbidden))

		create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "viewer"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "default", Namespace: namespace}},
		})
		Eventually(listing).WithContext(ctx).Should(Succeed())
	})
})

var _ = Describe("A node's own user", func() {
	var user client.Client

	BeforeEach(func() {
		skipUnlessOwnCluster()
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(ownCluster(), "pki", nodes[0]+".kubeconfig"))
		Expect(err).NotTo(HaveOccurred())
		user = clientOf(config)
	})

	It("may label itself, but no other node", func(ctx SpecContext) {
		DeferCleanup(label, api, nodes[0], "null")
		Expect(label(ctx, user, nodes[0], `"yes"`)).To(Succeed())
		err := label(ctx, user, nodes[1], `"yes"`)
		Expect(err).To(Satisfy(apierrors.IsForbidden))
		Expect(err).To(MatchError(ContainSubstring("is not allowed to modify node")), "refused by NodeRestriction")
	})

	It("may read a secret once a pod of its own mounts it, and no other secret", func(ctx SpecContext) {
		mounted, unrelated := secret("mounted"), secret("unrelated")
		create(ctx, mounted, unrelated)
		reading := func(ctx context.Context, one *corev1.Secret) error {
			return user.Get(ctx, client.ObjectKeyFromObject(one), &corev1.Secret{})
		}
		Expect(reading(ctx, mounted)).To(Satisfy(apierrors.IsForbidden))

		startPod(ctx, idler().onNode(nodes[0]).mounting("secret",
			corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: mounted.Name}}).pod("owner"))
		Expect(reading(ctx, mounted)).To(Succeed())
		Expect(reading(ctx, unrelated)).To(Satisfy(apierrors.IsForbidden))
	})
})

func impersonating(user string) client.Client {
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	return clientOf(config)
}

// label sets the suite's label of a node to a JSON value.
func label(ctx context.Context, c client.Client, node, value string) error {
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+spaceLabel+`":`+value+`}}}`))
	return c.Patch(ctx, nodeNamed(node), patch)
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"key": "value"}}
}
