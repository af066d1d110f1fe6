package swarm

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/chaos"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// expectReassignedWithin shows how long after a moment the last attempt of a swarm began, and expects that within a time.
// The start is what the agent wrote down, so what the test itself waits for afterwards costs nothing.
func expectReassignedWithin(ctx context.Context, swarm, description string, start time.Time, limit time.Duration) {
	GinkgoHelper()
	var began time.Time
	for _, line := range readJournals(ctx, swarm).agents {
		if line.Event == "start" {
			began = line.Time
		}
	}
	AddReportEntry(description, began.Sub(start).Round(10*time.Millisecond).String(), ReportEntryVisibilityAlways)
	Expect(began.Sub(start)).To(BeNumerically("<=", limit), description)
}

// awaitTerminated returns when the status of a pod showed that one of its containers has ended.
func awaitTerminated(ctx context.Context, pod string) time.Time {
	GinkgoHelper()
	isTerminated := func(c corev1.ContainerStatus) bool {
		return c.State.Terminated != nil && c.State.Terminated.ContainerID != "" ||
			c.LastTerminationState.Terminated != nil && c.LastTerminationState.Terminated.ContainerID != ""
	}
	Eventually(func(g Gomega) {
		found := &corev1.Pod{}
		g.Expect(api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: pod}, found)).To(Succeed())
		g.Expect(slices.ContainsFunc(found.Status.ContainerStatuses, isTerminated)).To(BeTrue())
	}).WithContext(ctx).WithPolling(20 * time.Millisecond).Should(Succeed())
	return time.Now()
}

// awaitUnlinked returns when the operator heard an agent last, once it shows the link as lost. The time has whole seconds.
func awaitUnlinked(ctx context.Context, name string) time.Time {
	GinkgoHelper()
	agent := &v1alpha1.Agent{}
	Eventually(func(g Gomega) {
		g.Expect(api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, agent)).To(Succeed())
		g.Expect(meta.IsStatusConditionFalse(agent.Status.Conditions, v1alpha1.ConditionLinked)).To(BeTrue())
		g.Expect(agent.Status.LastHeartbeat).NotTo(BeNil())
	}).WithContext(ctx).Should(Succeed())
	return agent.Status.LastHeartbeat.Time
}

var _ = Describe("A swarm through faults", func() {
	BeforeEach(chaos.SkipOnForeignCluster)

	It("finishes a task whose agent is killed in the middle, long before its lease ends", func(ctx SpecContext) {
		mortal := newSwarm("mortal", 2, 1)
		mortal.Spec.Agents[0].LeaseSeconds = 3600 // only the kubelet's proof of its end moves the task within this spec
		createReadySwarm(ctx, mortal)
		create(ctx, task("long", "mortal", endlessOrder()))
		held := awaitRunning(ctx, "long")
		holder := cluster.PodProcesses(ctx, namespace, held.Name)
		killed := time.Now()
		holder.Kill("swarm-agent")
		proven := awaitTerminated(ctx, held.Name)
		AddReportEntry("from the kill of an agent to the pod's status", proven.Sub(killed).Round(10*time.Millisecond).String(),
			ReportEntryVisibilityAlways)

		awaitPhase(ctx, v1alpha1.TaskCompleted, "long")
		finished := taskNamed(ctx, "long")
		Expect(finished.Status.Reassignments).To(BeEquivalentTo(1))
		Expect(finished.Status.Retries).To(BeZero(), "a lost agent is no fault of the task")
		Expect(finished.Status.Epoch).To(BeNumerically(">", held.Epoch))
		expectExactlyOnce(ctx, "mortal", []string{"long"})
		expectReassignedWithin(ctx, "mortal", "from the kill of an agent to the start on another", killed, 3*time.Second)
	})

	It("takes the work of a frozen agent over after its lease, and refuses what it says when it wakes", func(ctx SpecContext) {
		icy := newSwarm("icy", 2, 1)
		icy.Spec.Agents[0].LeaseSeconds = 10
		createReadySwarm(ctx, icy)
		create(ctx, task("long", "icy", endlessOrder()))
		held := awaitRunning(ctx, "long")
		frozen := cluster.PodProcesses(ctx, namespace, held.Name)
		frozen.Freeze()
		DeferCleanup(frozen.Unfreeze)
		age := freeze{agent: held.Name, start: time.Now()}

		awaitPhase(ctx, v1alpha1.TaskCompleted, "long")
		Expect(taskNamed(ctx, "long").Status.Reassignments).To(BeEquivalentTo(1))
		heard := awaitUnlinked(ctx, held.Name)
		age.end = time.Now()
		frozen.Unfreeze()
		Expect(kubectl(ctx, "wait", "--namespace", namespace, "agent/"+held.Name, "--for=condition=Linked", "--timeout=60s")).
			To(ContainSubstring("condition met"))
		expectExactlyOnce(ctx, "icy", []string{"long"}, age)
		// The lease and 2 s; one more because the stored time of the last heartbeat is cut to a second.
		expectReassignedWithin(ctx, "icy", "from the last heartbeat of a frozen agent with a lease of 10 s to the start on another", heard,
			13*time.Second)
	})

	It("loses nothing when the leader is killed during fifty tasks [S15/same-end-state]", func(ctx SpecContext) {
		createReadySwarm(ctx, newSwarm("headless", 5, 2))
		names := createTasks(ctx, "headless", 50, orderLasting(1500*time.Millisecond))
		awaitAssigned(ctx, names[0])
		cluster.KillLeader(ctx)

		awaitPhase(ctx, v1alpha1.TaskCompleted, names...)
		expectExactlyOnce(ctx, "headless", names)
		cluster.AwaitOperator(ctx)
	})

	It("is not confused by a leader that was frozen during fifty tasks and wakes up", func(ctx SpecContext) {
		createReadySwarm(ctx, newSwarm("sleepy", 5, 2))
		names := createTasks(ctx, "sleepy", 50, orderLasting(1500*time.Millisecond))
		awaitAssigned(ctx, names[0])
		old := cluster.LeaderPod(ctx)
		frozen := cluster.PodProcesses(ctx, testcluster.SystemNamespace, old)
		frozen.Freeze()
		DeferCleanup(frozen.Unfreeze)
		Eventually(cluster.LeaderPod).WithContext(ctx).ShouldNot(Equal(old))
		frozen.Unfreeze()

		awaitPhase(ctx, v1alpha1.TaskCompleted, names...)
		expectExactlyOnce(ctx, "sleepy", names)
		cluster.AwaitOperator(ctx)
	})

	It("survives the leader and an agent killed at once", func(ctx SpecContext) {
		createReadySwarm(ctx, newSwarm("doomed", 4, 2))
		names := createTasks(ctx, "doomed", 24, orderLasting(2*time.Second))
		awaitAssigned(ctx, names[0])
		head, hand := cluster.PodProcesses(ctx, testcluster.SystemNamespace, cluster.LeaderPod(ctx)), cluster.PodProcesses(ctx, namespace,
			"doomed-worker-0")
		head.Kill("swarm-operator")
		hand.Kill("swarm-agent")

		awaitPhase(ctx, v1alpha1.TaskCompleted, names...)
		expectExactlyOnce(ctx, "doomed", names)
		cluster.AwaitOperator(ctx)
	})

	It("goes on when the API server is restarted in the middle", Serial, func(ctx SpecContext) {
		createReadySwarm(ctx, newSwarm("patient", 4, 2))
		names := createTasks(ctx, "patient", 24, orderLasting(2*time.Second))
		awaitAssigned(ctx, names[0])
		chaos.Devcluster(ctx, "restart", "kube-apiserver")

		awaitPhase(ctx, v1alpha1.TaskCompleted, names...)
		expectExactlyOnce(ctx, "patient", names)
		cluster.AwaitOperator(ctx)
	})
})
