package spread

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/podwatch"
)

// newMisplaced has a Deployment and a StatefulSet whose pods have all come up on spot nodes, before a split was requested.
func newMisplaced(ctx context.Context, size int32) (s *environment, deployment, statefulSet workload) {
	GinkgoHelper()
	s = newEmptyEnvironment(ctx)
	s.nodes(ctx, spot)
	workloads := s.createBoth(ctx, "adrift", size, nil)
	for _, w := range workloads {
		w.awaitRunning(ctx, 0, int(size))
	}
	s.nodes(ctx, onDemand)
	return s, workloads[0], workloads[1]
}

var _ = Describe("A workload that was made without us", func() {
	It("is moved to its split in steps, as little as is needed, and its template does not change", func(ctx SpecContext) {
		s, deployment, set := newMisplaced(ctx, 8)
		all := []workload{deployment, set}
		seen := []*podwatch.Recorder{deployment.watchPods(ctx), set.watchPods(ctx)}
		for _, w := range all {
			w.optIn(ctx, "2", "50")
		}
		for n, w := range all {
			w.awaitSettled(ctx, 4, 4)
			Expect(seen[n].Lowest()).To(BeNumerically(">=", 6), "no more than a quarter is away at any time")
			w.awaitEvent(ctx, "Normal PodRescheduled: pod "+w.GetName())
			w.expectSpecUnchanged(ctx)
		}
		Expect(s.moves()).To(HaveLen(8))
		Expect(verbs(s.moves())).To(Equal([]string{"create"}), "by eviction")
		order := slices.DeleteFunc(removedPods(s.moves()), func(pod string) bool { return pod[:len(set.GetName())] != set.GetName() })
		Expect(order[0]).To(Equal("adrift-s-6"), "the highest ordinal of those that belong elsewhere goes first")
	})

	It("[R04/budget-respected, R04/override] is moved as far as its budget allows, and beyond only when it asks for that",
		func(ctx SpecContext) {
			s, deployment, set := newMisplaced(ctx, 4)
			deployment.budget(ctx, "two", intstr.FromInt32(2))
			set.budget(ctx, "all", intstr.FromString("100%"))
			seen, blocked := deployment.watchPods(ctx), set.watchPods(ctx)
			deployment.optIn(ctx, "", "0")
			set.optIn(ctx, "", "0")
			deployment.awaitSettled(ctx, 4, 0)
			Expect(seen.Lowest()).To(BeNumerically(">=", 2))
			set.status(ctx, v1alpha1.SpreadBlockedByPDB)
			Consistently(s.split).WithContext(ctx).WithArguments(set.GetName()).Should(Equal(distribution(0, 4)))
			Expect(blocked.Lowest()).To(Equal(4))
			Expect(verbs(s.moves())).To(Equal([]string{"create"}))

			set.annotate(ctx, map[string]any{annotationKey(v1alpha1.SpreadPDBOverride): "true"})
			set.awaitSettled(ctx, 4, 0)
			Expect(blocked.Lowest()).To(BeNumerically(">=", 3), "one at a time even so")
			Expect(verbs(s.moves())).To(Equal([]string{"create", "delete"}))
		})

	It("is left alone when several budgets cover its pods, and says so", func(ctx SpecContext) {
		s, w, _ := newMisplaced(ctx, 4)
		w.budget(ctx, "one", intstr.FromInt32(1))
		w.budget(ctx, "two", intstr.FromInt32(1))
		w.optIn(ctx, "", "0")
		w.status(ctx, v1alpha1.SpreadBlockedByPDB)
		w.awaitEvent(ctx, "Warning ConfigurationError: ")
		Consistently(s.moves).Should(BeEmpty())
		Expect(s.requests()).To(HaveEach(Satisfy(func(r request) bool { return !r.isRemoval() })), "the webhook is not even called")
	})

	It("is moved only while a disruption window is open: its own, else its namespace's, else that of the configuration",
		func(ctx SpecContext) {
			const never, always = "0 0 29 2 * for 1m", "* * * * * for 1h"
			replicaFleet.replaceReplicas(ctx, "SWARM_SPREAD_DISRUPTION_WINDOWS="+never)
			s, w, _ := newMisplaced(ctx, 6)
			stays := func() {
				GinkgoHelper()
				Eventually(w.annotation(v1alpha1.SpreadReason)).WithContext(ctx).Should(HavePrefix("waiting: the disruption windows are closed"))
				before := len(s.moves())
				Consistently(s.moves).Should(HaveLen(before))
			}
			w.optIn(ctx, "", "80")
			w.status(ctx, v1alpha1.SpreadRebalancing)
			stays()
			annotateNamespace(ctx, s.namespace, map[string]any{annotationKey(v1alpha1.SpreadWindows): always})
			w.awaitSettled(ctx, 2, 4)
			w.annotate(ctx, map[string]any{annotationKey(v1alpha1.SpreadWindows): never, annotationKey(v1alpha1.SpreadSpotPercentage): "50"})
			w.status(ctx, v1alpha1.SpreadRebalancing)
			stays()
			annotateNamespace(ctx, s.namespace, map[string]any{annotationKey(v1alpha1.SpreadWindows): never})
			w.annotate(ctx, map[string]any{annotationKey(v1alpha1.SpreadWindows): always})
			w.awaitSettled(ctx, 3, 3)
		})

	It("keeps a pod whose volume is nowhere near the nodes it belongs on, and says so", func(ctx SpecContext) {
		s := newEmptyEnvironment(ctx)
		s.node(ctx, "far", withLabels(map[string]string{capacity: onDemand, corev1.LabelTopologyZone: "far"}))
		s.open(ctx)
		s.volume(ctx, "bound-0", "far")
		s.volume(ctx, "bound-1", "")
		w := s.statefulSet(ctx, "bound", 2, nil, func(spec *appsv1.StatefulSetSpec) {
			spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{s.claim()}
		})
		w.awaitRunning(ctx, 2, 0)
		s.nodes(ctx, spot)
		w.optIn(ctx, "", "100")
		Eventually(s.split).WithContext(ctx).WithArguments("bound").Should(Equal(distribution(1, 1)), "the other one goes")
		Eventually(w.events).WithContext(ctx).WithArguments("bound").Should(ContainElement(ContainSubstring("which no spot node can reach")))
		w.status(ctx, v1alpha1.SpreadRebalancing)
		Consistently(s.moves).Should(HaveLen(1))
	})
})

// claim asks for a volume by the name of the pod.
func (s *environment) claim() corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new(s.namespace),
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
}

// volume makes one for the claim of a pod, in a zone or, with "", anywhere.
func (s *environment) volume(ctx context.Context, pod, zone string) {
	GinkgoHelper()
	object := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-" + pod},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: s.namespace,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:                      &corev1.ObjectReference{Namespace: s.namespace, Name: fmt.Sprintf("data-%s", pod)},
		},
	}
	if zone != "" {
		object.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: inZones(zone).
			NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms}}
	}
	Expect(api.Create(ctx, object)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, object)).To(Succeed()) })
}
