package spread

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// An example is what the formula gives.
type example struct {
	name           string
	size           int32
	floor, share   string
	onDemand, spot int
}

var _ = Describe("A workload", func() {
	It("[R02/ten-replicas, R02/three-replicas, R02/four-replicas] is split by its floor and its share, counted by the labels of nodes, and is so from its first pod on", func(ctx SpecContext) {
		s, examples := newCoveredEnvironment(ctx), []example{
			{"ten", 10, "2", "60", 4, 6}, {"three", 3, "2", "60%", 2, 1}, {"four", 4, "3", "75", 3, 1},
			{"floor", 3, "5", "60", 3, 0}, {"share", 4, "", "100", 0, 4}, {"rest", 4, "1", "", 1, 3},
		}
		made := map[string][]workload{}
		for _, e := range examples {
			made[e.name] = s.createBoth(ctx, e.name, e.size, spreadSettings(e.floor, e.share))
		}
		for _, e := range examples {
			for _, w := range made[e.name] {
				w.awaitSettled(ctx, e.onDemand, e.spot)
				w.awaitEvent(ctx, "Normal ReconciliationSuccess: ")
			}
		}
		Expect(made["floor"][0].events(ctx, "floor-d")).To(ContainElement(ContainSubstring("3 pods, and the floor is 5: all on-demand")))
		Expect(s.moves()).To(BeEmpty())
	})

	It("[R01/deployment, R01/stateful-set, R01/others-untouched, R01/outside-webhook-path] is managed for two annotations, whatever its kind, and others are left alone and are not asked about", func(ctx SpecContext) {
		s, elsewhere := newEnvironment(ctx), newEnvironment(ctx)
		plain := []workload{s.deployment(ctx, "plain", 4, nil), elsewhere.deployment(ctx, "plain", 4, nil)}
		idle := []workload{s.deployment(ctx, "numbers", 4, map[string]string{annotationKey(v1alpha1.SpreadSpotPercentage): "60"}),
			s.deployment(ctx, "enabled", 4, spreadSettings("", ""))}
		managed := s.createBoth(ctx, "managed", 5, spreadSettings("", "60"))
		for _, w := range managed {
			w.awaitSettled(ctx, 2, 3)
			w.expectSpecUnchanged(ctx)
		}
		Expect(selected(ctx)).To(And(ContainElement(s.namespace), Not(ContainElement(elsewhere.namespace))))

		loose := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "loose", Labels: map[string]string{"app": "loose"}},
			Spec: s.podSpec()}
		Expect(api.Create(ctx, loose)).To(Succeed())
		plain = append(plain, s.deployment(ctx, "later", 4, nil), workload{s, loose})
		for _, w := range append(plain, idle...) {
			Eventually(w.pods).WithContext(ctx).WithArguments(w.GetName()).Should(And(Not(BeEmpty()), HaveEach(Satisfy(isUntouched))), w.GetName())
			object, err := w.current(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(object.GetAnnotations()).NotTo(HaveKey(annotationKey(v1alpha1.SpreadStatus)), w.GetName())
		}
		Expect(replicaFleet.requestsIn(elsewhere.namespace)).To(BeEmpty())
		Expect(replicaFleet.requestsIn(s.namespace)).NotTo(ContainElement(Satisfy(func(q webhookRequest) bool { return q.pod == "loose" })))
	})

	It("is managed by a label as well, and no longer when that is taken away", func(ctx SpecContext) {
		s := newEnvironment(ctx)
		w := s.deployment(ctx, "labelled", 4, spreadSettings("1", "50"))
		w.patch(ctx, map[string]any{"metadata": map[string]any{
			"labels":      map[string]any{annotationKey(v1alpha1.SpreadMode): v1alpha1.SpreadEnabled},
			"annotations": map[string]any{annotationKey(v1alpha1.SpreadMode): nil},
		}})
		w.awaitSettled(ctx, 2, 2)
		Expect(selected(ctx)).To(ContainElement(s.namespace))
		w.patch(ctx, map[string]any{"metadata": map[string]any{"labels": map[string]any{annotationKey(v1alpha1.SpreadMode): nil}}})
		for _, written := range []v1alpha1.SpreadAnnotation{v1alpha1.SpreadStatus, v1alpha1.SpreadDesired, v1alpha1.SpreadCurrent,
			v1alpha1.SpreadSettings} {
			Eventually(w.annotation(written)).WithContext(ctx).Should(BeEmpty())
		}
		Eventually(selected).WithContext(ctx).ShouldNot(ContainElement(s.namespace))
	})

	It("keeps what its template says of nodes, and has tolerations for the class of each pod", func(ctx SpecContext) {
		s := newCoveredEnvironment(ctx)
		w := s.statefulSet(ctx, "picky", 4, spreadSettings("2", "50"), func(spec *appsv1.StatefulSetSpec) {
			spec.Template.Spec.Affinity = inZones("a", "b")
		})
		w.awaitSettled(ctx, 2, 2)
		Expect(s.moves()).To(BeEmpty())
		pods, err := s.pods(ctx, "picky")
		Expect(err).NotTo(HaveOccurred())
		for _, pod := range pods {
			Expect(pod.Spec.NodeName).To(Or(HaveSuffix("-a"), HaveSuffix("-b")))
			class := pod.Annotations[annotationKey(v1alpha1.SpreadClass)]
			Expect(pod.Spec.Tolerations).To(ContainElement(corev1.Toleration{Key: capacity, Operator: corev1.TolerationOpEqual, Value: class,
				Effect: corev1.TaintEffectNoSchedule}))
		}
	})
})

// isUntouched reports whether a pod is as its template says.
func isUntouched(pod corev1.Pod) bool {
	_, numbered := pod.Annotations[annotationKey(v1alpha1.SpreadNumber)]
	return pod.Spec.Affinity == nil && !numbered
}

// inZones is an affinity that a user has set.
func inZones(names ...string) *corev1.Affinity {
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone,
		Operator: corev1.NodeSelectorOpIn, Values: names}}}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
	}}
}
