package spread

import (
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

var _ = Describe("A setting that is wrong", func() {
	It("is reported, and the last valid one stays in force, also for new pods", func(ctx SpecContext) {
		s := newCoveredEnvironment(ctx)
		all := map[string]workload{"101": {}, "-1": {}, "abc": {}, "60 %": {}}
		for value := range all {
			name := map[string]string{"101": "large", "-1": "negative", "abc": "text", "60 %": "blank"}[value]
			all[value] = s.deployment(ctx, name, 4, spreadSettings("1", "50"))
		}
		for _, w := range all {
			w.awaitSettled(ctx, 2, 2)
		}
		for value, w := range all {
			w.annotate(ctx, map[string]any{annotationKey(v1alpha1.SpreadSpotPercentage): value})
		}
		for value, w := range all {
			Eventually(w.annotation(v1alpha1.SpreadStatus)).WithContext(ctx).Should(HavePrefix(`Invalid: spot-percentage is "` + value +
				`": write a whole number from 0 to 100`))
			w.awaitEvent(ctx, `Warning ConfigurationError: spot-percentage is "`+value+`"`)
			w.scale(ctx, 8)
		}
		for _, w := range all {
			w.awaitRunning(ctx, 4, 4)
			Expect(w.annotation(v1alpha1.SpreadSettings)(ctx)).To(Equal("min-on-demand:1,spot-percentage:50"))
			w.annotate(ctx, map[string]any{annotationKey(v1alpha1.SpreadSpotPercentage): "25"})
		}
		for _, w := range all {
			w.awaitSettled(ctx, 6, 2)
		}
	})

	It("from the first on leaves pods where they come up", func(ctx SpecContext) {
		s := newCoveredEnvironment(ctx)
		w := s.deployment(ctx, "wrong", 4, spreadSettings("two", "50"))
		Eventually(w.annotation(v1alpha1.SpreadStatus)).WithContext(ctx).
			Should(HavePrefix(`Invalid: min-on-demand is "two": write a number of replicas`))
		w.awaitEvent(ctx, "Warning ConfigurationError: ")
		Eventually(s.pods).WithContext(ctx).WithArguments("wrong").Should(And(HaveLen(4), HaveEach(Satisfy(isAvailable)),
			HaveEach(Satisfy(isUntouched))))
		Expect(s.moves()).To(BeEmpty())
	})

	It("on a template that names its node is reported, and nothing is moved", func(ctx SpecContext) {
		s := newCoveredEnvironment(ctx)
		w := s.deployment(ctx, "fixed", 4, spreadSettings("", "50"),
			func(spec *appsv1.DeploymentSpec) { spec.Template.Spec.NodeName = s.nodeName("on-demand-a") })
		w.status(ctx, "Invalid: its template chooses nodes by nodeName itself: take that out of the template, or disable spread")
		Eventually(s.pods).WithContext(ctx).WithArguments("fixed").Should(And(HaveLen(4), HaveEach(Satisfy(isAvailable))))
		Consistently(s.moves).Should(BeEmpty())
	})

	It("that is beyond all measure harms no other", func(ctx SpecContext) {
		s := newCoveredEnvironment(ctx)
		w := s.deployment(ctx, "modest", 4, spreadSettings("1", "50"))
		w.awaitSettled(ctx, 2, 2)
		vast := s.deployment(ctx, "vast", math.MaxInt32, spreadSettings("", "50"), func(spec *appsv1.DeploymentSpec) { spec.Paused = true })
		vast.status(ctx, "Invalid: it has 2147483647 replicas, and at most 100000 can be spread")
		pods, err := s.pods(ctx, "modest")
		Expect(err).NotTo(HaveOccurred())
		number := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"swarm.io/spread-number":"9000000000000"}}}`))
		Expect(api.Patch(ctx, &pods[0], number)).To(Succeed())
		Expect(api.Delete(ctx, &pods[3])).To(Succeed())
		w.awaitSettled(ctx, 2, 2)
		Expect(s.pods(ctx, "modest")).To(HaveEach(Not(Satisfy(isUntouched))), "every new pod was given a place")
		Expect(replicaFleet.awaitLeader(ctx).session).NotTo(gexec.Exit())
	})

	It("that admission can never follow is reported, and nothing is moved", func(ctx SpecContext) {
		system := &environment{namespace: metav1.NamespaceSystem, since: currentAuditPosition()}
		setNamespaceLabel(ctx, system.namespace, "true")
		DeferCleanup(func(ctx SpecContext) {
			setNamespaceLabel(ctx, system.namespace, nil)
			Expect(api.DeleteAllOf(ctx, &corev1.Node{}, client.MatchingLabels{ours: system.namespace})).To(Succeed())
		})
		system.nodes(ctx, onDemand)
		w := system.deployment(ctx, "spread-suite", 4, spreadSettings("", "50"))
		DeferCleanup(func(ctx SpecContext) {
			Expect(api.Delete(ctx, w.Object)).To(Succeed())
			Expect(api.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(system.namespace), client.MatchingLabels{"app": w.GetName()},
				client.GracePeriodSeconds(0))).To(Succeed())
		})
		Eventually(w.annotation(v1alpha1.SpreadStatus)).WithContext(ctx).Should(HavePrefix("Invalid: "))
		w.awaitEvent(ctx, "Warning ConfigurationError: ")
		system.nodes(ctx, spot)
		Consistently(system.moves).Should(BeEmpty())
		Expect(selected(ctx)).NotTo(ContainElement("kube-system"))
	})
})
