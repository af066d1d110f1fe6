package spread

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

var _ = Describe("No pod is lost", func() {
	It("to a taint that the controller manager sets late, on a node that is Ready", func(ctx SpecContext) {
		s := newWarmEnvironment(ctx)
		w := s.deployment(ctx, "steady", 6, spreadSettings("2", "100"))
		w.awaitSettled(ctx, 2, 4)
		for _, zone := range zones {
			patchNode(ctx, s.nodeName(spot+"-"+zone), types.JSONPatchType,
				fmt.Sprintf(`[{"op":"add","path":"/spec/taints/-","value":{"key":%q,"effect":"NoExecute"}}]`, corev1.TaintNodeNotReady))
		}
		Consistently(s.moves).Should(BeEmpty())
		s.open(ctx) // it removes them again
		w.awaitSettled(ctx, 2, 4)
		Expect(s.moves()).To(BeEmpty())
	})

	It("where nodes are cordoned and there are no others", func(ctx SpecContext) {
		s := newWarmEnvironment(ctx)
		w := s.deployment(ctx, "floor", 6, spreadSettings("2", "100"))
		w.awaitSettled(ctx, 2, 4)
		for _, zone := range zones {
			cordon(ctx, s.nodeName(onDemand+"-"+zone), true)
		}
		Eventually(w.annotation(v1alpha1.SpreadReason)).WithContext(ctx).
			Should(Equal("waiting: there is no other node for pods of nodes that are going away"))
		Consistently(s.moves).Should(BeEmpty())
		w.awaitRunning(ctx, 2, 4)
		cordon(ctx, s.nodeName(onDemand+"-a"), false)
		w.awaitSettled(ctx, 2, 4)
	})

	It("behind a scheduling gate, however long that stays", func(ctx SpecContext) {
		s := newCoveredEnvironment(ctx)
		w := s.statefulSet(ctx, "queued", 4, spreadSettings("1", "50"), func(spec *appsv1.StatefulSetSpec) {
			spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.test/queue"}}
		})
		Eventually(w.annotation(v1alpha1.SpreadReason)).WithContext(ctx).Should(Equal("waiting: scheduling gates hold 4 pods back"))
		Consistently(s.moves).WithTimeout(deadline+2*cooldown).Should(BeEmpty(), "the deadline of pods that wait has passed")
		pods, err := s.pods(ctx, "queued")
		Expect(err).NotTo(HaveOccurred())
		for n := range pods {
			Expect(api.Patch(ctx, &pods[n], client.RawPatch(types.MergePatchType, []byte(`{"spec":{"schedulingGates":null}}`)))).To(Succeed())
		}
		w.awaitSettled(ctx, 2, 2)
		Expect(s.moves()).To(BeEmpty())
	})

	It("after the other when the API server cannot reach the webhook, though all looks well", func(ctx SpecContext) {
		s := newCoveredEnvironment(ctx)
		w := s.deployment(ctx, "unheard", 8, spreadSettings("", "0"))
		w.awaitSettled(ctx, 8, 0)
		only := replicaFleet.awaitLeader(ctx)
		replicaFleet.stopRouting(only)
		DeferCleanup(func(ctx SpecContext) { // a spec that fails here must leave a running operator to the others
			if len(replicaFleet.listReplicas()) == 0 {
				replicaFleet.startRouting(only)
				replicaFleet.stopAll()
				replicaFleet.startReplica(ctx)
			}
		})
		w.annotate(ctx, map[string]any{annotationKey(v1alpha1.SpreadSpotPercentage): "100"})
		Eventually(w.annotation(v1alpha1.SpreadReason)).WithContext(ctx).
			Should(Equal("waiting: the last replacement came without a place: can the API server reach the webhook?"))
		Consistently(s.moves).WithTimeout(5 * cooldown).Should(HaveLen(1))
		replicaFleet.startRouting(only)
		replicaFleet.stopAll() // a new process tries at once
		replicaFleet.startReplica(ctx)
		w.awaitSettled(ctx, 0, 8)
	})

	It("for five minutes because a budget would not release one that is not Ready", func(ctx SpecContext) {
		s := newCoveredEnvironment(ctx)
		w := s.deployment(ctx, "silent", 4, spreadSettings("1", "100"))
		w.awaitSettled(ctx, 1, 3)
		w.budget(ctx, "silent", intstr.FromInt32(3))
		pods, err := s.pods(ctx, "silent")
		Expect(err).NotTo(HaveOccurred())
		last := &pods[3]
		Expect(api.Status().Patch(ctx, last, client.RawPatch(types.StrategicMergePatchType,
			[]byte(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)))).To(Succeed())
		Eventually(s.allowedDisruptions).WithContext(ctx).WithArguments("silent").Should(BeZero())
		taintNode(ctx, last.Spec.NodeName)
		Eventually(s.pods).WithContext(ctx).WithArguments("silent").ShouldNot(ContainElement(HaveField("UID", last.UID)))
	})
})

// newWarmEnvironment returns an environment whose operator already moves pods, which it does not right after its start.
func newWarmEnvironment(ctx context.Context) *environment {
	GinkgoHelper()
	s := newCoveredEnvironment(ctx)
	w := s.deployment(ctx, "awake", 1, spreadSettings("", "0"))
	w.awaitSettled(ctx, 1, 0)
	w.annotate(ctx, map[string]any{annotationKey(v1alpha1.SpreadSpotPercentage): "100"})
	w.awaitSettled(ctx, 0, 1)
	Expect(api.Delete(ctx, w.Object)).To(Succeed())
	s.since = currentAuditPosition()
	return s
}

// allowedDisruptions is how many disruptions a budget allows now.
func (s *environment) allowedDisruptions(ctx context.Context, budget string) (int32, error) {
	found := &policyv1.PodDisruptionBudget{}
	err := api.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: budget}, found)
	return found.Status.DisruptionsAllowed, err
}
