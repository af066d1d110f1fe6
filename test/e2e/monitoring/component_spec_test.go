package monitoring

import (
	"context"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

const (
	// pool is what Prometheus calls the targets of our ServiceMonitor.
	pool    = "serviceMonitor/swarm-system/swarm-operator/0"
	service = "swarm-operator-metrics"
)

var _ = Describe("A Prometheus that the Prometheus Operator has set up", Serial, Ordered, func() {
	var seen prometheus

	BeforeAll(func(ctx SpecContext) { seen = startPrometheus(ctx, account) })

	It("scrapes each replica of the operator, and nothing else of ours", func(ctx SpecContext) {
		Eventually(func(g Gomega) {
			targets, err := seen.targets(ctx, testcluster.SystemNamespace)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(targets).To(HaveEach(And(HaveField("Health", "up"), HaveField("LastError", ""),
				HaveField("Labels", HaveKeyWithValue("service", service)))))
			g.Expect(podsOf(targets)).To(ConsistOf(replicas(ctx)))
			g.Expect(seen.number(ctx, `count(up{job="swarm-operator-metrics"} == 1)`)).To(BeEquivalentTo(2))
			g.Expect(seen.number(ctx, `up{job="apiserver"}`)).To(BeEquivalentTo(1), "which counts for the alerts about webhooks")
		}).WithContext(ctx).Should(Succeed())
	})

	It("verifies the certificate by the operator's CA, and never sends its own token", func(ctx SpecContext) {
		made := awaitContainerSpec(ctx)
		_, section, _ := strings.Cut(string(made.files[config]), "job_name: "+pool+"\n")
		section, _, _ = strings.Cut(section, "job_name: ")
		Expect(section).To(And(ContainSubstring("server_name: swarm-operator-metrics.swarm-system.svc"), ContainSubstring("ca_file: ")))
		Expect(section).NotTo(Or(ContainSubstring("insecure_skip_verify: true"), ContainSubstring("token_file"),
			ContainSubstring("credentials_file")))
		published := &corev1.ConfigMap{}
		Expect(webhook.API.Get(ctx, client.ObjectKey{Namespace: testcluster.SystemNamespace, Name: "swarm-operator-ca"}, published)).To(Succeed())
		Expect(slices.Collect(maps.Values(made.files))).To(ContainElement([]byte(published.Data["ca.crt"])))
	})

	It("[R23/loaded] has loaded every alert, and none is there while nothing is wrong", func(ctx SpecContext) {
		names := alertNames()
		calm := func(g Gomega) {
			alerts, err := seen.alerts(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(alerts).To(HaveLen(len(names)))
			for _, alert := range alerts {
				g.Expect(names).To(ContainElement(alert.Name))
				g.Expect(alert).To(And(HaveField("Health", "ok"), HaveField("LastError", ""), HaveField("State", BeElementOf(quietStates(alert.Name)))))
			}
		}
		Eventually(calm).WithContext(ctx).Should(Succeed())
		Consistently(calm).WithContext(ctx).WithTimeout(quietPeriod).Should(Succeed())
	})

	It("[R23/loaded] has the numbers that the alerts go by, with their labels", func(ctx SpecContext) {
		webhook.CoveredDeployment(ctx, "swarm-e2e-monitoring-")
		for _, series := range requiredSeries {
			Eventually(seen.number).WithContext(ctx).WithArguments("count("+series+")").Should(BeNumerically(">", 0), series)
		}
		Expect(seen.number(ctx, `sum(leader_election_master_status{name="swarm-operator"})`)).To(BeEquivalentTo(1))
	})

	It("[R23/loaded] tells of a replica that does not answer, by its name", func(ctx SpecContext) {
		others := slices.DeleteFunc(replicas(ctx), func(name string) bool { return name == webhook.LeaderPod(ctx) })
		frozen := webhook.PodProcesses(ctx, testcluster.SystemNamespace, others[0])
		DeferCleanup(frozen.Unfreeze)
		frozen.Freeze()
		Eventually(seen.alert).WithContext(ctx).WithArguments("SwarmOperatorReplicaDown").Should(And(
			HaveField("State", "pending"), HaveField("Alerts", HaveExactElements(HaveField("Annotations",
				HaveKeyWithValue("description", ContainSubstring("describe pod "+others[0]+" "))))),
		))
		Expect(seen.alert(ctx, "SwarmOperatorDown")).To(HaveField("State", "inactive"), "the other answers")
		frozen.Unfreeze()
		Eventually(seen.alert).WithContext(ctx).WithArguments("SwarmOperatorReplicaDown").Should(HaveField("State", "inactive"))
	})

	It("[R23/loaded] tells of an operator that is gone, and of webhooks without an answer", func(ctx SpecContext) {
		web := webhook.CoveredDeployment(ctx, "swarm-e2e-monitoring-")
		missed := map[string]float64{}
		for alert, counter := range webhookFailureCounts {
			before, err := seen.number(ctx, counter)
			Expect(err).NotTo(HaveOccurred())
			missed[alert] = before
		}
		DeferCleanup(func(ctx SpecContext) { webhook.ScaleOperator(ctx, 2) })
		webhook.ScaleOperator(ctx, 0)
		Eventually(seen.alert).WithContext(ctx).WithArguments("SwarmOperatorDown").Should(HaveField("State", "pending"))

		Expect(webhook.API.Create(ctx, worker(web), client.DryRunAll)).To(MatchError(ContainSubstring("pods.swarm.io")))
		Expect(webhook.AdmitsPlaced(ctx, web)).To(BeFalse(), "it would be made without a place")
		for alert, counter := range webhookFailureCounts {
			Eventually(seen.number).WithContext(ctx).WithArguments(counter).Should(BeNumerically(">", missed[alert]))
			Eventually(seen.alert).WithContext(ctx).WithArguments(alert).Should(HaveField("State", "pending"))
		}

		webhook.ScaleOperator(ctx, 2)
		Eventually(seen.alert).WithContext(ctx).WithArguments("SwarmOperatorDown").Should(HaveField("State", "inactive"))
	})

	It("says what it may not do: find replicas, or read their metrics", func(ctx SpecContext) {
		const stranger = "stranger"
		runDocCommand(ctx, []string{"--namespace", monitoringNamespace, "create", "serviceaccount", stranger})
		refused := startPrometheus(ctx, stranger)
		Eventually(refused.session.Err).WithContext(ctx).Should(gbytes.Say(`endpoints is forbidden: .* in the namespace .*swarm-system`))
		Eventually(refused.targets).WithContext(ctx).WithArguments(testcluster.SystemNamespace).Should(BeEmpty())

		removeBinding(ctx, "swarm-operator-metrics-reader")
		runDocCommand(ctx, []string{"--namespace", testcluster.SystemNamespace, "create", "rolebinding", stranger, "--role=prometheus-targets",
			"--serviceaccount=" + monitoringNamespace + ":" + stranger})
		Eventually(func(g Gomega) {
			targets, err := refused.targets(ctx, testcluster.SystemNamespace)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(podsOf(targets)).To(ConsistOf(replicas(ctx)))
			g.Expect(targets).To(HaveEach(And(HaveField("Health", "down"), HaveField("LastError", "server returned HTTP status 403 Forbidden"))))
		}).WithContext(ctx).Should(Succeed())
	})
})

// removeBinding deletes a ClusterRoleBinding until the spec ends.
func removeBinding(ctx context.Context, name string) {
	GinkgoHelper()
	binding := &rbacv1.ClusterRoleBinding{}
	Expect(webhook.API.Get(ctx, client.ObjectKey{Name: name}, binding)).To(Succeed())
	Expect(webhook.API.Delete(ctx, binding)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		binding.ResourceVersion, binding.UID = "", ""
		Expect(webhook.API.Create(ctx, binding)).To(Succeed())
	})
}

// replicas are the names of the operator's pods.
func replicas(ctx context.Context) (names []string) {
	GinkgoHelper()
	pods, err := webhook.OperatorPods(ctx)
	Expect(err).NotTo(HaveOccurred())
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names
}

func podsOf(targets []target) (names []string) {
	for _, some := range targets {
		names = append(names, some.Labels["pod"])
	}
	return names
}

// worker is a pod that is labeled as a member of a pool, otherwise like those of a workload.
func worker(like *appsv1.Deployment) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: like.Namespace, Name: "worker", Labels: map[string]string{v1alpha1.LabelPool: "any"}},
		Spec:       like.Spec.Template.Spec,
	}
}
