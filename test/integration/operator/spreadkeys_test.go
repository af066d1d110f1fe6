package operator

import (
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func showSpotLabel(ctx SpecContext) {
	s := newSpreadEnvironment(ctx)
	cheap := s.node(ctx, "cheap", "spot")
	s.operator("SWARM_NODE_LABELS_SPOT=karpenter.sh/capacity-type=none-at-all, " + s.label() + "=spot")
	s.createAndScale(ctx, s.workload("web", "50"), 4)
	Eventually(s.current).WithContext(ctx).WithArguments("web").Should(Equal("on-demand:2,spot:2"))
	Expect(s.podNodes(ctx, "web")).To(WithTransform(func(all []string) []string {
		return slices.DeleteFunc(all, func(name string) bool { return name != cheap.Name })
	}, HaveLen(2)))
}

// A node that is tainted with the label of its class takes the pods that were made for that class, and no others.
func showOnDemandLabel(ctx SpecContext) {
	s := newSpreadEnvironment(ctx)
	steady := s.node(ctx, "steady", "on-demand")
	s.operator("SWARM_NODE_LABELS_ON_DEMAND=" + s.label() + "=on-demand")
	web := s.workload("web", "0")
	web.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: steady.Name}
	s.createAndScale(ctx, web, 1)
	Eventually(s.podNodes).WithContext(ctx).WithArguments("web").Should(ConsistOf(steady.Name))
	Eventually(s.readAnnotation).WithContext(ctx).WithArguments("web", v1alpha1.SpreadStatus).Should(Equal("Balanced"))
}

func showAnnotationPrefix(ctx SpecContext) {
	s := newSpreadEnvironment(ctx)
	usual := s
	s.prefix = "split.example.test/"
	s.node(ctx, "cheap", "spot")
	s.operator("SWARM_SPREAD_ANNOTATION_PREFIX=" + s.prefix)
	other := usual.workload("other", "100")
	Expect(api.Create(ctx, other)).To(Succeed())
	s.createAndScale(ctx, s.workload("web", "100"), 1)
	Eventually(s.current).WithContext(ctx).WithArguments("web").Should(Equal("on-demand:0,spot:1"))
	Eventually(s.readAnnotation).WithContext(ctx).WithArguments("web", v1alpha1.SpreadStatus).Should(Equal("Balanced"))
	Expect(usual.readAnnotation(ctx, "web", v1alpha1.SpreadStatus)).To(BeEmpty())

	Expect(usual.readAnnotation(ctx, "other", v1alpha1.SpreadStatus)).To(BeEmpty())
	Eventually(usual.livePods).WithContext(ctx).WithArguments("other").Should(HaveExactElements(HaveField("Annotations",
		Not(HaveKey(v1alpha1.SpreadClass.Key(usual.prefix))))))
}

func showReadOnly(ctx SpecContext) {
	s := newSpreadEnvironment(ctx)
	s.node(ctx, "cheap", "spot")
	web := s.createUnspread(ctx, "web", 2)
	reporting := s.operator("SWARM_CONTROLLER_READ_ONLY=true")
	change(ctx, web, func() { s.setSpotPercent(web, "100") })
	Eventually(s.readAnnotation).WithContext(ctx).WithArguments("web", v1alpha1.SpreadStatus).Should(Equal("Rebalancing"))
	Expect(s.readAnnotation(ctx, "web", v1alpha1.SpreadDesired)).To(Equal("on-demand:0,spot:2"))
	Expect(s.current(ctx, "web")).To(Equal("on-demand:2,spot:0"))
	Expect(s.admittedClass(ctx, web)).To(BeEmpty())
	before, err := s.podUIDs(ctx, "web")
	Expect(err).NotTo(HaveOccurred())
	Consistently(s.podUIDs).WithContext(ctx).WithArguments("web").WithTimeout(3 * time.Second).Should(Equal(before))
	Eventually(reporting.Terminate()).Should(gexec.Exit(0))

	s.operator()
	Eventually(s.current).WithContext(ctx).WithArguments("web").Should(Equal("on-demand:0,spot:2"))
}

// No spot nodes are created here, whatever the operator's settings.
func showPendingDeadline(ctx SpecContext) {
	s := newSpreadEnvironment(ctx)
	patient := s.operator("SWARM_SPREAD_PROVISIONER=present", "SWARM_SPREAD_PENDING_DEADLINE=1h")
	s.createAndScale(ctx, s.workload("web", "100"), 1)
	Eventually(s.podNodes).WithContext(ctx).WithArguments("web").Should(ConsistOf(""))
	Consistently(s.podNodes).WithContext(ctx).WithArguments("web").WithTimeout(7 * time.Second).Should(ConsistOf(""))
	Eventually(patient.Terminate()).Should(gexec.Exit(0))

	s.operator("SWARM_SPREAD_PROVISIONER=present", "SWARM_SPREAD_PENDING_DEADLINE=5s")
	Eventually(s.current).WithContext(ctx).WithArguments("web").Should(Equal("on-demand:1,spot:0"))
	Eventually(s.readAnnotation).WithContext(ctx).WithArguments("web", v1alpha1.SpreadStatus).Should(Equal("SpotUnavailable"))
}

func showProvisioner(ctx SpecContext) {
	s := newSpreadEnvironment(ctx)
	none := s.operator("SWARM_SPREAD_PROVISIONER=none")
	web := s.workload("web", "100")
	s.createAndScale(ctx, web, 1)
	Eventually(s.current).WithContext(ctx).WithArguments("web").Should(Equal("on-demand:1,spot:0"))
	Eventually(s.readAnnotation).WithContext(ctx).WithArguments("web", v1alpha1.SpreadStatus).Should(Equal("SpotUnavailable"))
	Expect(s.admittedClass(ctx, web)).To(Equal("on-demand"))
	Eventually(none.Terminate()).Should(gexec.Exit(0))

	s.operator("SWARM_SPREAD_PROVISIONER=present")
	Eventually(s.podNodes).WithContext(ctx).WithArguments("web").Should(ConsistOf(""), "the only pod tries spot nodes, and waits for one")
	Expect(s.admittedClass(ctx, web)).To(Equal("spot"))
}

func showCooldown(ctx SpecContext) {
	s := newSpreadEnvironment(ctx)
	s.node(ctx, "cheap", "spot")
	gap := func(cooldown string) time.Duration {
		born := s.creationTimes(ctx, "rests-"+cooldown, 2, "SWARM_SPREAD_COOLDOWN="+cooldown, "SWARM_SPREAD_STEP=100%")
		return born[1].Sub(born[0])
	}
	short, long := gap("1s"), gap("5s")
	Expect(long).To(BeNumerically(">=", 5*time.Second))
	Expect(short).To(BeNumerically("<", long))
}

// The first pod tries alone whether there is room; after it come as many at once as may. Between two times there is at least a second.
func showStep(ctx SpecContext) {
	const replicas = 5
	s := newSpreadEnvironment(ctx)
	s.node(ctx, "cheap", "spot")
	times := func(name, step string) int {
		return len(slices.Compact(s.creationTimes(ctx, name, replicas, "SWARM_SPREAD_STEP="+step)))
	}
	Expect(times("one-by-one", "1")).To(Equal(replicas))
	Expect(times("together", "100%")).To(BeNumerically("<", replicas))
}

func showNotices(ctx SpecContext) {
	s := newSpreadEnvironment(ctx)
	s.node(ctx, "one", "spot")
	s.node(ctx, "two", "spot")
	s.operator("SWARM_SPREAD_NOTICES=spread.test/leav*")
	s.createAndScale(ctx, s.workload("web", "100"), 1)
	Eventually(s.current).WithContext(ctx).WithArguments("web").Should(Equal("on-demand:0,spot:1"))
	living, err := s.livePods(ctx, "web")
	Expect(err).NotTo(HaveOccurred())
	home := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: living[0].Spec.NodeName}}
	taint := func(key string) {
		GinkgoHelper()
		change(ctx, home, func() {
			home.Spec.Taints = append(home.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		})
	}
	taint("spread.test/swept")
	Consistently(s.podNodes).WithContext(ctx).WithArguments("web").WithTimeout(2 * time.Second).Should(ConsistOf(home.Name))
	taint("spread.test/leaving")
	Eventually(s.podNodes).WithContext(ctx).WithArguments("web").Should(ConsistOf(And(HavePrefix(s.namespace), Not(Equal(home.Name)))))
}

// Two workloads, one with a window of its own that never closes.
func showDisruptionWindows(ctx SpecContext) {
	s := newSpreadEnvironment(ctx)
	s.node(ctx, "cheap", "spot")
	held, free := s.createUnspread(ctx, "held", 1), s.createUnspread(ctx, "free", 1)
	before, err := s.podUIDs(ctx, "held")
	Expect(err).NotTo(HaveOccurred())
	faraway := time.Now().UTC().AddDate(0, 6, 0).Month()
	closed := s.operator(fmt.Sprintf("SWARM_SPREAD_DISRUPTION_WINDOWS=0 0 1 %d * for 1h", faraway))
	change(ctx, held, func() { s.setSpotPercent(held, "100") })
	Eventually(s.readAnnotation).WithContext(ctx).WithArguments("held", v1alpha1.SpreadStatus).Should(Equal("Rebalancing"))
	change(ctx, free, func() {
		s.setSpotPercent(free, "100")
		metav1.SetMetaDataAnnotation(&free.ObjectMeta, v1alpha1.SpreadWindows.Key(s.prefix), "* * * * * for 1h")
	})
	Eventually(s.current).WithContext(ctx).WithArguments("free").Should(Equal("on-demand:0,spot:1"))
	Expect(s.podUIDs(ctx, "held")).To(Equal(before))
	Eventually(closed.Terminate()).Should(gexec.Exit(0))

	s.operator()
	Eventually(s.current).WithContext(ctx).WithArguments("held").Should(Equal("on-demand:0,spot:1"))
}
