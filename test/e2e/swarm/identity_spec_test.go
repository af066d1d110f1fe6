package swarm

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/history"
)

// The swarm "durable" has one agent.
const durableAgent = "durable-worker-0"

// An identity is what must stay the same about an agent, whatever happens to its pod.
type identity struct {
	claim    types.UID
	resolves bool // its DNS name leads to its pod
	starts   int  // of programs, by the file that they write
}

var _ = Describe("An agent", Serial, func() {
	It("stays who it is when its pod is killed and when its node is drained, and reports what it does [S07/killed-pod] [S07/workload] "+
		"[S09/reported-by-agent] [S09/complete] [S19/name] [S19/dns] [S19/claim] [S20/file-survives] [S21/requeued] [S21/none-lost] [S21/none-twice] "+
		"[S26/pod-kill] [S26/node-drain]", func(ctx SpecContext) {
		createReadySwarm(ctx, newSwarm("durable", 1, 1))
		agent := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: durableAgent}}
		phases := history.Watch(ctx, api, &v1alpha1.AgentList{}, agent, func(a *v1alpha1.Agent) v1alpha1.AgentPhase { return a.Status.Phase })
		payload := endlessOrder()
		payload.Progress = []int{10, 40, 30}
		steady := task("steady", "durable", payload)
		progress := history.Watch(ctx, api, &v1alpha1.TaskList{}, steady, func(t *v1alpha1.Task) int32 { return t.Status.Progress })
		create(ctx, steady)
		Eventually(progress.List).WithContext(ctx).Should(Equal([]int32{0, 40}), "30 came after 40")
		Eventually(func(g Gomega) {
			g.Expect(current(ctx, agent).Status.Workload).To(HaveValue(HaveField("Running", ConsistOf(
				v1alpha1.RunningAttempt{Task: "steady", Attempt: 1, Progress: 40}))))
		}).WithContext(ctx).Should(Succeed())
		first := podOf(ctx)
		was := readIdentity(ctx, first)
		Expect(was.resolves).To(BeTrue())
		Expect(was.starts).To(Equal(1))

		By("deleting the pod, which gets SIGTERM")
		Expect(kubectl(ctx, "delete", "--namespace", namespace, "pod/"+durableAgent)).To(ContainSubstring("deleted"))
		second := awaitSuccessor(ctx, first)
		awaitPhase(ctx, v1alpha1.TaskCompleted, "steady")
		Expect(taskNamed(ctx, "steady").Status).To(And(HaveField("Progress", BeEquivalentTo(100)), HaveField("Attempt", BeEquivalentTo(2)),
			HaveField("HandBacks", BeEquivalentTo(1)), HaveField("Reassignments", BeZero()), HaveField("Retries", BeZero())),
			"the agent handed it back before it ended")
		expectExactlyOnce(ctx, "durable", []string{"steady"})
		Eventually(phases.List).WithContext(ctx).Should(HaveSuffixOf(v1alpha1.AgentRunning, v1alpha1.AgentPending, v1alpha1.AgentRunning))
		was.starts = 2
		Eventually(readIdentity).WithContext(ctx).WithArguments(second).Should(Equal(was))

		By("draining the node")
		DeferCleanup(func(ctx SpecContext) {
			Expect(kubectl(ctx, "uncordon", second.Spec.NodeName)).To(ContainSubstring("uncordoned"))
		})
		Expect(kubectl(ctx, "drain", second.Spec.NodeName, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout", timeout.String(),
			"--pod-selector", v1alpha1.LabelSwarm+"=durable")).To(ContainSubstring("drained"))
		third := awaitSuccessor(ctx, second)
		Expect(third.Spec.NodeName).NotTo(Equal(second.Spec.NodeName))
		Eventually(readIdentity).WithContext(ctx).WithArguments(third).Should(Equal(was))
		create(ctx, task("after", "durable", taskOrder{}))
		awaitPhase(ctx, v1alpha1.TaskCompleted, "after")
	})
})

// HaveSuffixOf matches a list that ends with these elements.
func HaveSuffixOf[V comparable](elements ...V) OmegaMatcher {
	return WithTransform(func(list []V) []V { return list[max(0, len(list)-len(elements)):] }, Equal(elements))
}

func podOf(ctx context.Context) *corev1.Pod {
	GinkgoHelper()
	return current(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: durableAgent}})
}

// awaitSuccessor is the pod of the same name that comes after one, once its agent is linked.
func awaitSuccessor(ctx context.Context, before *corev1.Pod) *corev1.Pod {
	GinkgoHelper()
	agent := &v1alpha1.Agent{}
	Eventually(func(g Gomega) {
		g.Expect(api.Get(ctx, client.ObjectKeyFromObject(before), agent)).To(Succeed())
		g.Expect(agent.Status.PodUID).NotTo(Or(BeEmpty(), Equal(string(before.UID))))
		g.Expect(readiness(agent.Status.Conditions).Status).To(Equal(metav1.ConditionTrue))
	}).WithContext(ctx).Should(Succeed())
	return podOf(ctx)
}

// readIdentity looks at the agent from inside its pod.
func readIdentity(ctx context.Context, pod *corev1.Pod) identity {
	GinkgoHelper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "state-" + durableAgent}}
	Expect(slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
		return volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.ClaimName == claim.Name
	})).To(BeTrue())
	result := identity{claim: current(ctx, claim).UID}
	addresses, _ := kubectl(ctx, "exec", "--namespace", namespace, durableAgent, "--container", "agent", "--",
		"/probe", "lookup", durableAgent+".durable."+namespace+".svc.cluster.local")
	result.resolves = strings.TrimSpace(addresses) == pod.Status.PodIP
	for _, said := range read(ctx, durableAgent, "work.jsonl") {
		if said.Event == "start" {
			result.starts++
		}
	}
	return result
}
