package run

import (
	"context"
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/controller/webhookconfig"
	"github.com/swarm-io/swarm-operator/internal/testkit/podwatch"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

const (
	capacityType           = "karpenter.sh/capacity-type"
	onDemandNodes          = capacityType + "=on-demand"
	spotNodes              = capacityType + "=spot"
	registeredByAnnotation = v1alpha1.AnnotationRegisteredBy
)

var _ = Describe("make run", Ordered, func() {
	var (
		cluster       testcluster.Cluster
		before, after string // namespaces
		operator      *runner
		leftBehind    *admissionv1.MutatingWebhookConfiguration
	)

	BeforeAll(func(ctx SpecContext) {
		cluster = testcluster.Connect()
		before, after = namespace(ctx, cluster), namespace(ctx, cluster)
		expectTwoAndTwo(ctx, before)
		operator = startRun(ctx)
	})

	It("[P19/make-run] [R16/make-run] is one process with controllers, webhook, metrics and probes", func(ctx SpecContext) {
		Expect(operator.children()).To(HaveLen(1))
		Expect(executable(operator.children()[0])).To(Equal(testcluster.FromRoot("bin", "swarm-operator")))
		for _, check := range []string{"caches", "webhook"} {
			Expect(operator.readyStatus(ctx, check)).To(Equal(http.StatusOK), check)
		}
	})

	It("[P19/make-run] moves pods that were placed before it started", func(ctx SpecContext) {
		Eventually(split).WithContext(ctx).WithArguments(cluster, before).Should(Equal("on-demand:3,spot:1"))
		Eventually(status).WithContext(ctx).WithArguments(before).Should(Equal("Balanced"))
	})

	It("[P19/make-run] places new pods without evictions", func(ctx SpecContext) {
		testcluster.MustKubectl(ctx, "apply", "--namespace", after, "--filename", "testdata/deployment.yaml")
		Eventually(coveredNamespaces).WithContext(ctx).WithArguments(cluster).Should(ContainElement(after))
		pods := podwatch.Watch(ctx, cluster.API, after, client.MatchingLabels{"app": "web"})
		testcluster.MustKubectl(ctx, "scale", "--namespace", after, "deployment/web", "--replicas=4")
		Eventually(split).WithContext(ctx).WithArguments(cluster, after).Should(Equal("on-demand:3,spot:1"))
		Eventually(status).WithContext(ctx).WithArguments(after).Should(Equal("Balanced"))
		Expect(pods.Changes()).To(And(HaveLen(4), HaveEach(HaveField("Available", true))), "no pod was evicted")
	})

	It("[P19/make-run] gives each worker of a PerWorker pool its own ConfigMap", func(ctx SpecContext) {
		testcluster.MustKubectl(ctx, "apply", "--namespace", after, "--filename", "testdata/pool.yaml")
		for _, worker := range []string{"worker-0", "worker-1"} {
			Eventually(mountedConfigMap).WithContext(ctx).WithArguments(after, worker).Should(Equal("lists-" + worker))
			Eventually(testcluster.Kubectl).WithContext(ctx).WithArguments("get", "configmap", "--namespace", after,
				"lists-"+worker).Should(ContainSubstring("lists-" + worker))
		}
	})

	It("[P19/make-run] leaves a registration behind when it is killed, which blocks no pods", func(ctx SpecContext) {
		operator.kill()
		var err error
		leftBehind, err = registration(ctx, cluster)
		Expect(err).NotTo(HaveOccurred())
		Expect(leftBehind.Annotations).To(HaveKey(registeredByAnnotation))
		testcluster.MustKubectl(ctx, "scale", "--namespace", after, "deployment/web", "--replicas=6")
		testcluster.MustKubectl(ctx, "scale", "--namespace", after, "statefulset/worker", "--replicas=3")
		Eventually(running).WithContext(ctx).WithArguments(cluster, after).Should(Equal(9))
	})

	It("[P19/make-run] replaces that registration with the next start, and removes its own when it ends", func(ctx SpecContext) {
		operator = startRun(ctx)
		found, err := registration(ctx, cluster)
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Annotations[registeredByAnnotation]).NotTo(BeElementOf("", leftBehind.Annotations[registeredByAnnotation]))
		Eventually(operator.Terminate()).WithContext(ctx).Should(gexec.Exit())
		_, err = registration(ctx, cluster)
		Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
		Expect(err).To(HaveOccurred(), "the registration is still there")
	})

	It("[P19/make-run] needs make uninstall to remove that registration when it is not started again", func(ctx SpecContext) {
		leftBehind.ObjectMeta = metav1.ObjectMeta{Name: leftBehind.Name, Labels: leftBehind.Labels, Annotations: leftBehind.Annotations}
		Expect(cluster.API.Create(ctx, leftBehind)).To(Succeed())
		Eventually(start("uninstall")).WithContext(ctx).WithTimeout(makeTimeout).Should(gexec.Exit(0))
		_, err := registration(ctx, cluster)
		Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
		Expect(err).To(HaveOccurred(), "the registration is still there")
	})
})

// namespace creates a namespace, and deletes it when the suite ends.
func namespace(ctx context.Context, cluster testcluster.Cluster) string {
	GinkgoHelper()
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "swarm-run-"}}
	Expect(cluster.API.Create(ctx, made)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(cluster.API.Delete(ctx, made)).To(Succeed()) })
	return made.Name
}

// expectTwoAndTwo expects two replicas on on-demand nodes and two on spot nodes.
func expectTwoAndTwo(ctx context.Context, ns string) {
	GinkgoHelper()
	DeferCleanup(testcluster.Kubectl, "uncordon", "--selector", capacityType)
	testcluster.MustKubectl(ctx, "cordon", "--selector", spotNodes)
	testcluster.MustKubectl(ctx, "create", "--namespace", ns, "--filename", "testdata/deployment.yaml")
	testcluster.MustKubectl(ctx, "scale", "--namespace", ns, "deployment/web", "--replicas=2")
	testcluster.MustKubectl(ctx, "rollout", "status", "--namespace", ns, "deployment/web")
	testcluster.MustKubectl(ctx, "uncordon", "--selector", spotNodes)
	testcluster.MustKubectl(ctx, "cordon", "--selector", onDemandNodes)
	testcluster.MustKubectl(ctx, "scale", "--namespace", ns, "deployment/web", "--replicas=4")
	testcluster.MustKubectl(ctx, "rollout", "status", "--namespace", ns, "deployment/web")
	testcluster.MustKubectl(ctx, "uncordon", "--selector", onDemandNodes)
}

// split is how many Running pods of the Deployment are on nodes of each class.
func split(ctx context.Context, cluster testcluster.Cluster, ns string) (string, error) {
	pods, nodes := &corev1.PodList{}, &corev1.NodeList{}
	if err := cluster.API.List(ctx, pods, client.InNamespace(ns), client.MatchingLabels{"app": "web"}); err != nil {
		return "", err
	}
	if err := cluster.API.List(ctx, nodes); err != nil {
		return "", err
	}
	class, count := map[string]string{}, map[string]int{}
	for _, node := range nodes.Items {
		class[node.Name] = node.Labels[capacityType]
	}
	for n := range pods.Items {
		if podwatch.IsAvailable(&pods.Items[n]) {
			count[class[pods.Items[n].Spec.NodeName]]++
		}
	}
	return fmt.Sprintf("on-demand:%d,spot:%d", count["on-demand"], count["spot"]), nil
}

// running is how many pods of a namespace run.
func running(ctx context.Context, cluster testcluster.Cluster, ns string) (count int, err error) {
	pods := &corev1.PodList{}
	err = cluster.API.List(ctx, pods, client.InNamespace(ns))
	for n := range pods.Items {
		if podwatch.IsAvailable(&pods.Items[n]) {
			count++
		}
	}
	return count, err
}

// status is the Deployment's report of its distribution.
func status(ctx context.Context, ns string) (string, error) {
	return testcluster.Kubectl(ctx, "get", "--namespace", ns, "deployment/web", "--output",
		`jsonpath={.metadata.annotations.swarm\.io/spread-status}`)
}

// mountedConfigMap is the ConfigMap of a worker.
func mountedConfigMap(ctx context.Context, ns, worker string) (string, error) {
	return testcluster.Kubectl(ctx, "get", "--namespace", ns, "pod", worker, "--output", "jsonpath={.spec.volumes[0].configMap.name}")
}

func registration(ctx context.Context, cluster testcluster.Cluster) (*admissionv1.MutatingWebhookConfiguration, error) {
	found := &admissionv1.MutatingWebhookConfiguration{}
	return found, cluster.API.Get(ctx, client.ObjectKey{Name: webhookconfig.ConfigurationName}, found)
}

// coveredNamespaces returns the namespaces for which the webhook is called.
func coveredNamespaces(ctx context.Context, cluster testcluster.Cluster) ([]string, error) {
	found, err := registration(ctx, cluster)
	if err != nil {
		return nil, err
	}
	for _, hook := range found.Webhooks {
		if hook.Name == webhookconfig.SpreadWebhook && hook.NamespaceSelector != nil && len(hook.NamespaceSelector.MatchExpressions) == 1 {
			return hook.NamespaceSelector.MatchExpressions[0].Values, nil
		}
	}
	return nil, nil
}
