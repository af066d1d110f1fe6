package spread

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/podwatch"
)

var _ = Describe("When the operator is away", func() {
	It("[R26/pods-created, R26/corrected] pods are made all the same, and moved to their split when it is back", func(ctx SpecContext) {
		s := newEnvironment(ctx)
		replicaFleet.stopAll()
		all := s.createBoth(ctx, "meanwhile", 8, spreadSettings("2", "100"))
		for _, w := range all {
			Eventually(s.pods).WithContext(ctx).WithArguments(w.GetName()).Should(And(HaveLen(8), HaveEach(Satisfy(isUntouched)),
				HaveEach(Satisfy(isAvailable))))
		}
		began := time.Now()
		replicaFleet.startReplica(ctx)
		for _, w := range all {
			w.awaitSettled(ctx, 2, 6)
		}
		reportDuration("pods made without it are balanced after", time.Since(began))
	})

	It("another replica finishes what the leader has begun, when that is killed in the middle", func(ctx SpecContext) {
		replicaFleet.ensureReplicas(ctx, 2)
		s, deployment, set := newMisplaced(ctx, 12)
		all := []workload{deployment, set}
		seen := []*podwatch.Recorder{deployment.watchPods(ctx), set.watchPods(ctx)}
		killed := replicaFleet.awaitLeader(ctx)
		for _, w := range all {
			w.optIn(ctx, "2", "25")
		}
		Eventually(s.moves).ShouldNot(BeEmpty())
		replicaFleet.stopRouting(killed)
		Eventually(killed.session.Signal(syscall.SIGKILL)).Should(gexec.Exit())
		Expect(len(s.moves())).To(BeNumerically("<", 18), "it was in the middle")
		for n, w := range all {
			w.awaitSettled(ctx, 9, 3)
			Expect(seen[n].Lowest()).To(BeNumerically(">=", 9))
		}
		Expect(replicaFleet.awaitLeader(ctx)).NotTo(Equal(killed))
		Expect(len(s.moves())).To(BeNumerically("<=", 18))
	})

	It("others estimate where pods go while the leader is frozen, and the split is right in the end", func(ctx SpecContext) {
		s := newCoveredEnvironment(ctx)
		replicaFleet.ensureReplicas(ctx, 3)
		frozen := replicaFleet.awaitLeader(ctx)
		w := s.deployment(ctx, "estimated", 0, spreadSettings("4", "80"))
		w.status(ctx, v1alpha1.SpreadBalanced)
		others := slices.DeleteFunc(replicaFleet.listReplicas(), func(r *replica) bool { return r == frozen })
		replicaFleet.stopRouting(frozen) // its probes fail
		frozen.session.Signal(syscall.SIGSTOP)
		DeferCleanup(func() { Eventually(frozen.session.Signal(syscall.SIGKILL)).Should(gexec.Exit()) })
		w.scale(ctx, 30)
		Eventually(s.pods).WithContext(ctx).WithArguments("estimated").Should(And(HaveLen(30), HaveEach(Not(Satisfy(isUntouched)))),
			"every pod has a place")
		guessed := 0
		for _, r := range others {
			count, err := r.metric(ctx, `swarm_placement_answers_total{by="estimate"}`)
			Expect(err).NotTo(HaveOccurred())
			some, _ := strconv.Atoi(count) // "" when it never had to
			guessed += some
		}
		AddReportEntry("pods placed by estimate", ReportEntryVisibilityAlways, guessed)
		Expect(guessed).To(BeNumerically(">", 0))
		w.awaitSettled(ctx, 6, 24)
		Expect(s.numbers(ctx, "estimated")).To(HaveLen(30))
	})
})

var _ = Describe("A namespace", func() {
	It("[R10/relabelled] is left alone when it is relabelled, and looked after again when it is labelled back", func(ctx SpecContext) {
		s := newCoveredEnvironment(ctx)
		w := s.deployment(ctx, "scoped", 4, spreadSettings("1", "50"))
		w.awaitSettled(ctx, 2, 2)
		setNamespaceLabel(ctx, s.namespace, "false")
		Eventually(selected).WithContext(ctx).ShouldNot(ContainElement(s.namespace))
		w.scale(ctx, 8)
		Eventually(s.pods).WithContext(ctx).WithArguments("scoped").Should(And(HaveLen(8), HaveEach(Satisfy(isAvailable))))
		w.annotate(ctx, map[string]any{annotationKey(v1alpha1.SpreadSpotPercentage): "0"})
		Consistently(s.moves).Should(BeEmpty())
		Expect(w.annotation(v1alpha1.SpreadDesired)(ctx)).To(Equal(distribution(2, 2)), "no reconcile has run")

		began := time.Now()
		setNamespaceLabel(ctx, s.namespace, "true")
		// Nothing but the event of the label can be the reason: the operators of this suite resync after ten minutes.
		Eventually(w.annotation(v1alpha1.SpreadDesired)).WithContext(ctx).Should(Equal(distribution(8, 0)))
		reportDuration("a namespace that is labelled back is looked after again after", time.Since(began))
		w.awaitSettled(ctx, 8, 0)
	})
})

// annotateNamespace changes annotations of a namespace.
func annotateNamespace(ctx context.Context, name string, annotations map[string]any) {
	GinkgoHelper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	Expect(err).NotTo(HaveOccurred())
	Expect(api.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.MergePatchType, patch))).
		To(Succeed())
}

// setNamespaceLabel brings a namespace into the operator's scope or removes it. Without a value the label is removed.
func setNamespaceLabel(ctx context.Context, name string, value any) {
	GinkgoHelper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{ours: value}}})
	Expect(err).NotTo(HaveOccurred())
	Expect(api.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.MergePatchType, patch))).
		To(Succeed())
}
