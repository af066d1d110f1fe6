package spread

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

var _ = Describe("The configuration", func() {
	It("[R05] names other labels of nodes, several of them, and all else is the same", func(ctx SpecContext) {
		const tier, gke = "example.com/tier", "cloud.google.com/gke-spot"
		replicaFleet.replaceReplicas(ctx, "SWARM_NODE_LABELS_SPOT="+tier+"=cheap,"+gke+"=true", "SWARM_NODE_LABELS_ON_DEMAND="+tier+"=paid")
		s := newEmptyEnvironment(ctx)
		s.node(ctx, "cheap", withLabels(map[string]string{tier: "cheap"}))
		s.node(ctx, "gke", withLabels(map[string]string{gke: "true"}))
		s.node(ctx, "paid", withLabels(map[string]string{tier: "paid"}))
		s.open(ctx)
		s.awaitCovered(ctx)
		all := s.createBoth(ctx, "custom", 10, spreadSettings("2", "60"))
		on := func(name string, nodes ...string) func() (int, error) {
			return func() (int, error) {
				total := 0
				for _, node := range nodes {
					found, err := s.onNode(ctx, name, node)
					if err != nil {
						return 0, err
					}
					total += len(found)
				}
				return total, nil
			}
		}
		for _, w := range all {
			w.status(ctx, v1alpha1.SpreadBalanced)
			Eventually(on(w.GetName(), "cheap", "gke")).Should(Equal(6))
			Eventually(on(w.GetName(), "paid")).Should(Equal(4))
		}
		Expect(s.moves()).To(BeEmpty())
		cordon(ctx, s.nodeName("gke"), true)
		for _, w := range all {
			Eventually(on(w.GetName(), "cheap")).Should(Equal(6))
			w.status(ctx, v1alpha1.SpreadBalanced)
		}
	})

	It("can have everything reported and nothing done", func(ctx SpecContext) {
		s, deployment, set := newMisplaced(ctx, 4)
		replicaFleet.replaceReplicas(ctx, "SWARM_CONTROLLER_READ_ONLY=true")
		for _, w := range []workload{deployment, set} {
			w.optIn(ctx, "1", "50")
			Eventually(w.annotation(v1alpha1.SpreadDesired)).WithContext(ctx).Should(Equal(distribution(2, 2)))
			Expect(w.annotation(v1alpha1.SpreadCurrent)(ctx)).To(Equal(distribution(0, 4)))
			w.status(ctx, v1alpha1.SpreadRebalancing)
			w.scale(ctx, 6)
			Eventually(s.pods).WithContext(ctx).WithArguments(w.GetName()).Should(And(HaveLen(6), HaveEach(Satisfy(isUntouched)),
				HaveEach(Satisfy(isAvailable))))
		}
		Consistently(s.moves).Should(BeEmpty())
	})

	It("can give the annotations another prefix", func(ctx SpecContext) {
		const prefix = "split.example.com/"
		replicaFleet.replaceReplicas(ctx, "SWARM_SPREAD_ANNOTATION_PREFIX="+prefix)
		s := newEnvironment(ctx)
		other := s.deployment(ctx, "other", 4, spreadSettings("1", "50"))
		w := s.deployment(ctx, "prefixed", 4, map[string]string{v1alpha1.SpreadMode.Key(prefix): v1alpha1.SpreadEnabled,
			v1alpha1.SpreadSpotPercentage.Key(prefix): "100"})
		w.awaitRunning(ctx, 0, 4)
		Eventually(func() (map[string]string, error) {
			object, err := w.current(ctx)
			return object.GetAnnotations(), err
		}).Should(HaveKeyWithValue(v1alpha1.SpreadStatus.Key(prefix), v1alpha1.SpreadBalanced))
		Expect(other.annotation(v1alpha1.SpreadStatus)(ctx)).To(BeEmpty())
	})

	It("can give a class without nodes the time that a provisioner needs", func(ctx SpecContext) {
		replicaFleet.replaceReplicas(ctx, "SWARM_SPREAD_PROVISIONER=present")
		s := newEmptyEnvironment(ctx)
		s.nodes(ctx, onDemand)
		s.awaitCovered(ctx)
		w := s.deployment(ctx, "patient", 4, spreadSettings("", "50"))
		Eventually(s.pods).WithContext(ctx).WithArguments("patient").Should(ContainElements(Satisfy(waiting), Satisfy(waiting)))
		s.nodes(ctx, spot) // as a provisioner would, for pods that wait
		w.awaitSettled(ctx, 2, 2)
		Expect(s.moves()).To(BeEmpty())
	})
})

// waiting reports whether a pod has no node.
func waiting(pod corev1.Pod) bool { return pod.Spec.NodeName == "" }

var _ = Describe("A workload that is balanced", func() {
	It("causes no request at all", func(ctx SpecContext) {
		s := newCoveredEnvironment(ctx)
		for _, w := range s.createBoth(ctx, "calm", 6, spreadSettings("2", "50")) {
			w.awaitSettled(ctx, 3, 3)
			w.awaitEvent(ctx, "Normal ReconciliationSuccess: ")
		}
		Eventually(func() (int, error) {
			left := &corev1.NamespaceList{}
			err := api.List(ctx, left, client.HasLabels{ours})
			return len(left.Items), err
		}).Should(Equal(2), "what specs before have left is gone")
		Eventually(selected).WithContext(ctx).Should(Equal([]string{s.namespace}))
		began := currentAuditPosition()
		Consistently(func() []request { return requestsWithoutLease(began) }).WithTimeout(5 * time.Second).WithPolling(500 * time.Millisecond).
			Should(BeEmpty())
	})

	It("[R14/api-audit] is not one of those that do not opt in, which cause no request, however they change", func(ctx SpecContext) {
		s := newEnvironment(ctx)
		for _, w := range s.createBoth(ctx, "plain", 6, nil) {
			Eventually(s.pods).WithContext(ctx).WithArguments(w.GetName()).Should(And(HaveLen(6), HaveEach(Satisfy(isAvailable))))
			w.scale(ctx, 2)
			Eventually(s.pods).WithContext(ctx).WithArguments(w.GetName()).Should(HaveLen(2))
		}
		cordon(ctx, s.nodeName("spot-a"), true)
		Consistently(s.requests).Should(BeEmpty())
	})

	It("[R22/controller, R22/webhook, R22/distribution] is counted by the metrics as it is", func(ctx SpecContext) {
		s := newCoveredEnvironment(ctx)
		leader := replicaFleet.awaitLeader(ctx)
		const placed = `swarm_webhook_request_duration_seconds_count{outcome="placed",webhook="spread"}`
		before, placedBefore := map[string]string{}, leader.count(ctx, placed)
		for _, series := range []string{reconcileSeries("time_seconds_count", "deployment"), reconcileSeries("time_seconds_count", "statefulset"),
			reconcileSeries("errors_total", "deployment"), reconcileSeries("errors_total", "statefulset")} {
			var err error
			before[series], err = leader.metric(ctx, series)
			Expect(err).NotTo(HaveOccurred())
		}
		all := s.createBoth(ctx, "counted", 10, spreadSettings("2", "60"))
		for _, w := range all {
			w.awaitSettled(ctx, 4, 6)
		}
		for series, value := range map[string]string{
			`swarm_spread_pods{class="spot",state="desired"}`: "12", `swarm_spread_pods{class="on-demand",state="desired"}`: "8",
			`swarm_spread_pods{class="spot",state="current"}`: "12", `swarm_spread_pods{class="on-demand",state="current"}`: "8",
			`swarm_spread_workloads{status="Balanced"}`: "3", `swarm_spread_workloads{status="Invalid"}`: "0",
		} {
			Eventually(leader.metric).WithContext(ctx).WithArguments(series).Should(Equal(value), series)
		}
		var stamped []corev1.Pod
		for _, w := range all {
			pods, err := s.pods(ctx, w.GetName())
			Expect(err).NotTo(HaveOccurred())
			stamped = append(stamped, slices.DeleteFunc(pods, isUntouched)...)
		}
		Expect(stamped).NotTo(BeEmpty())
		Expect(leader.count(ctx, placed)-placedBefore).To(BeNumerically(">=", len(stamped)),
			"each pod that was placed is an answer of the webhook")
		Expect(leader.count(ctx, strings.Replace(placed, "_count", "_sum", 1))).To(BeNumerically(">", 0))
		for series, value := range before {
			if strings.Contains(series, "errors") {
				Expect(leader.metric(ctx, series)).To(And(Not(BeEmpty()), Equal(value)), series)
				continue
			}
			Expect(leader.metric(ctx, series)).NotTo(Or(BeEmpty(), Equal(value)), series)
		}
	})
})

// requestsWithoutLease are the operator's requests since then, except for those that keep it the leader.
func requestsWithoutLease(since auditPosition) []request {
	GinkgoHelper()
	var result []request
	for _, one := range since.requests() {
		if one.ObjectRef.Resource != "leases" && one.Verb != "watch" {
			result = append(result, one)
		}
	}
	return result
}

// reconcileSeries is a series about the controller of a kind of workload.
func reconcileSeries(what, kind string) string {
	return fmt.Sprintf(`controller_runtime_reconcile_%s{controller="spread-%s"}`, what, kind)
}

// count is the value of a series as a number, 0 when there is none.
func (r *replica) count(ctx context.Context, series string) float64 {
	GinkgoHelper()
	text, err := r.metric(ctx, series)
	Expect(err).NotTo(HaveOccurred())
	if text == "" {
		return 0
	}
	value, err := strconv.ParseFloat(text, 64)
	Expect(err).NotTo(HaveOccurred())
	return value
}

// metric is the value of a series, "" when there is none.
func (r *replica) metric(ctx context.Context, series string) (string, error) {
	_, text, err := testcluster.HTTPGet(ctx, "http://127.0.0.1:"+r.metrics+"/metrics")
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, series+" "); found {
			return strings.TrimSpace(value), nil
		}
	}
	return "", err
}
