package pool

import (
	"context"
	"os"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/chaos"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// applyOrder matches the output of kubectl when it applies a namespace, rights, ConfigMaps, the operator and workers, in this order.
const applyOrder = `(?s)^namespace/swarm .*\nclusterrolebinding\S+/swarm-operator .*\nconfigmap/swarm-controller-config .*` +
	`\ndeployment\.apps/swarm-operator .*\nstatefulset\.apps/swarm-worker [^\n]*\n`

var _ = Describe("The whole of deploy/kustomize/envs/dev", Serial, func() {
	BeforeEach(chaos.SkipOnForeignCluster) // it replaces the operator of the cluster

	It("is applied in order, and keeps jobs when its operator restarts [P15/overlay-applied, P20/applied, P20/restart-moves-no-job]",
		func(ctx SpecContext) {
			removeOperator(ctx)
			overlay := testcluster.FromRoot("deploy", "kustomize", "envs", "dev")
			Expect(testcluster.MustKubectl(ctx, "apply", "--server-side", "--force-conflicts", "--kustomize", overlay)).To(MatchRegexp(applyOrder))
			testcluster.MustKubectl(ctx, "rollout", "status", "--namespace", dev, "deployment/swarm-operator", "--timeout=80s")
			text := devText(ctx, 2)
			Expect(text).To(Equal(jobList("pool-27-expected.yml")))
			written, err := os.ReadFile(testcluster.FromRoot("deploy", "kustomize", "envs", "dev", "config.yml"))
			Expect(err).NotTo(HaveOccurred())
			dumped := current(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: dev, Name: "swarm-controller-config"}})
			Expect(dumped.Data).To(Equal(map[string]string{"config.yml": string(written)}))

			workers, fence := devWorkers(ctx), devFence(ctx)
			Expect(workers).To(HaveLen(2))
			testcluster.MustKubectl(ctx, "rollout", "restart", "--namespace", dev, "deployment/swarm-operator")
			testcluster.MustKubectl(ctx, "rollout", "status", "--namespace", dev, "deployment/swarm-operator", "--timeout=80s")
			Eventually(devFence).WithContext(ctx).Should(BeNumerically(">", fence), "a new leader has looked at the pool")
			Expect(devText(ctx, 2)).To(Equal(text))
			Expect(devWorkers(ctx)).To(Equal(workers))
		})
})

// removeOperator takes the installed operator out of the cluster, which has one, until the spec ends.
func removeOperator(ctx context.Context) {
	GinkgoHelper()
	binding := current(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "swarm-operator"}})
	webhooks := current(ctx, &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "swarm-operator"}})
	DeferCleanup(func(ctx SpecContext) {
		testcluster.MustKubectl(ctx, "delete", "namespace", dev, "--ignore-not-found", "--timeout=80s")
		restore(ctx, binding, &rbacv1.ClusterRoleBinding{})
		restore(ctx, webhooks, &admissionv1.MutatingWebhookConfiguration{})
		cluster.ScaleOperator(ctx, 2)
	})
	cluster.ScaleOperator(ctx, 0)
	// Another spec may have deleted the namespace just now.
	Eventually(api.Get).WithContext(ctx).WithArguments(client.ObjectKey{Name: dev}, &corev1.Namespace{}).Should(Satisfy(apierrors.IsNotFound))
}

// restore writes an object that belongs to no namespace as it was before.
func restore(ctx context.Context, before, now client.Object) {
	GinkgoHelper()
	Expect(api.Get(ctx, client.ObjectKeyFromObject(before), now)).To(Succeed())
	before.SetResourceVersion(now.GetResourceVersion())
	before.SetManagedFields(nil)
	Expect(api.Update(ctx, before)).To(Succeed())
}

// devWorkers returns the UIDs of the workers, by name.
func devWorkers(ctx context.Context) map[string]types.UID {
	GinkgoHelper()
	uids := devPods(ctx)
	for name := range uids {
		if !strings.HasPrefix(name, "swarm-worker-") {
			delete(uids, name)
		}
	}
	return uids
}

// devFence returns the number that the leader has raised that wrote the workers' config last.
func devFence(ctx context.Context) int64 {
	GinkgoHelper()
	config := current(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: dev, Name: "swarm-worker-config"}})
	fence, err := strconv.ParseInt(config.Annotations[v1alpha1.AnnotationFence], 10, 64)
	Expect(err).NotTo(HaveOccurred())
	return fence
}
