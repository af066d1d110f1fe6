package swarm

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// newTeam is a swarm of three types.
func newTeam(name string) *v1alpha1.Swarm {
	swarm := newSwarm(name, 3, 1)
	swarm.Spec.Topology = v1alpha1.TopologyHierarchical
	swarm.Spec.Agents = []v1alpha1.AgentType{worker("coordinator", 1, "plan"), worker("coder", 1, "go"), worker("analyst", 1, "statistics")}
	return swarm
}

// expectEvenSplit counts the tasks that each agent reports to have finished.
func expectEvenSplit(ctx context.Context, agents int, names []string) {
	GinkgoHelper()
	doneByAgent := map[string]int{}
	for _, name := range names {
		var result struct{ Agent string }
		Expect(json.Unmarshal(taskNamed(ctx, name).Status.Result.Raw, &result)).To(Succeed())
		doneByAgent[result.Agent]++
	}
	counts := slices.Sorted(maps.Values(doneByAgent))
	Expect(counts).To(HaveLen(agents), "done by agent: %v", doneByAgent)
	Expect(counts[agents-1]-counts[0]).To(BeNumerically("<=", 1), "done by agent: %v", doneByAgent)
}

var _ = Describe("A swarm at work", func() {
	It("finishes tasks of all priorities on agents of the right type, with results [S05/ready, S05/active-agents, S05/observed-generation, S09/complete]", func(ctx SpecContext) {
		swarm := createReadySwarm(ctx, newTeam("demo"))
		Expect(current(ctx, swarm).Status.Phase).To(Equal(v1alpha1.SwarmPhaseRunning))
		Expect(swarm.Status.ActiveAgents).To(BeEquivalentTo(3))
		Expect(swarm.Status.ObservedGeneration).To(Equal(swarm.Generation))

		var names []string
		for n, kind := range []string{"coordinator", "coder", "analyst", ""} {
			for _, priority := range []v1alpha1.TaskPriority{v1alpha1.PriorityLow, v1alpha1.PriorityHigh, v1alpha1.PriorityCritical} {
				made := task(fmt.Sprintf("t%d-%s", n, priority), "demo", orderLasting(300*time.Millisecond))
				made.Spec.AgentType, made.Spec.Priority = kind, priority
				create(ctx, made)
				names = append(names, made.Name)
			}
		}
		awaitPhase(ctx, v1alpha1.TaskCompleted, names...)
		for _, name := range names {
			finished := taskNamed(ctx, name)
			Expect(finished.Status.Progress).To(BeEquivalentTo(100))
			Expect(string(finished.Status.Result.Raw)).To(ContainSubstring(`"task":"` + name + `"`))
			if finished.Spec.AgentType != "" {
				Expect(string(finished.Status.Result.Raw)).To(ContainSubstring(`"agent":"demo-` + finished.Spec.AgentType + `-0"`))
			}
		}
		Expect(kubectl(ctx, "wait", "--namespace", namespace, "task", "--all", "--for=condition=Ready", "--timeout=5s")).
			To(ContainSubstring("condition met"))
		expectExactlyOnce(ctx, "demo", names)
	})

	It("lets a critical task overtake twenty of low priority [S08/critical-first]", func(ctx SpecContext) {
		swarm := newSwarm("queue", 1, 1)
		swarm.Spec.Mode = v1alpha1.SwarmPaused
		createReadySwarm(ctx, swarm)
		names := []string{"urgent"}
		for n := range 20 {
			made := task(fmt.Sprintf("low-%02d", n), "queue", orderLasting(100*time.Millisecond))
			made.Spec.Priority = v1alpha1.PriorityLow
			create(ctx, made)
			names = append(names, made.Name)
		}
		urgent := task("urgent", "queue", orderLasting(100*time.Millisecond))
		urgent.Spec.Priority = v1alpha1.PriorityCritical
		create(ctx, urgent)
		awaitPhase(ctx, v1alpha1.TaskPending, names...)
		Expect(taskNamed(ctx, "urgent").Status.Reason).To(Equal(string(v1alpha1.ReasonPaused)))

		Expect(kubectl(ctx, "patch", "--namespace", namespace, "swarm/queue", "--type=merge", "--patch", `{"spec":{"mode":"Running"}}`)).
			To(ContainSubstring("patched"))
		awaitPhase(ctx, v1alpha1.TaskCompleted, names...)
		first := slices.IndexFunc(readJournals(ctx, "queue").agents, func(said journalEntry) bool { return said.Event == "start" })
		Expect(readJournals(ctx, "queue").agents[first].Task).To(Equal("urgent"))
	})

	It("shares equal tasks out evenly, at once and one after the other [S29/at-once, S29/one-by-one]", func(ctx SpecContext) {
		const agents, atOnce, more = 3, 20, 5
		swarm := newSwarm("even", agents, atOnce)
		swarm.Spec.Mode = v1alpha1.SwarmPaused
		createReadySwarm(ctx, swarm)
		names := createTasks(ctx, "even", atOnce, orderLasting(100*time.Millisecond))
		awaitPhase(ctx, v1alpha1.TaskPending, names...)
		Expect(kubectl(ctx, "patch", "--namespace", namespace, "swarm/even", "--type=merge", "--patch", `{"spec":{"mode":"Running"}}`)).
			To(ContainSubstring("patched"))
		awaitPhase(ctx, v1alpha1.TaskCompleted, names...)
		expectEvenSplit(ctx, agents, names)

		for n := range more {
			made := task(fmt.Sprintf("even-more-%d", n), "even", orderLasting(100*time.Millisecond))
			create(ctx, made)
			awaitPhase(ctx, v1alpha1.TaskCompleted, made.Name)
			names = append(names, made.Name)
		}
		expectEvenSplit(ctx, agents, names)
	})

	It("tries a failed attempt again, later each time, and then gives up", func(ctx SpecContext) {
		createReadySwarm(ctx, newSwarm("stubborn", 1, 1))
		flaky := task("flaky", "stubborn", taskOrder{SucceedFromAttempt: 2})
		hopeless := task("hopeless", "stubborn", taskOrder{Exit: 3, Message: "no such page"})
		hopeless.Spec.Retry = v1alpha1.TaskRetry{Limit: new(int32(1)), InitialSeconds: 1, Factor: 2, MaxSeconds: 10}
		create(ctx, flaky, hopeless)

		awaitPhase(ctx, v1alpha1.TaskCompleted, "flaky")
		Expect(taskNamed(ctx, "flaky").Status.Retries).To(BeEquivalentTo(1))
		awaitPhase(ctx, v1alpha1.TaskFailed, "hopeless")
		failed := taskNamed(ctx, "hopeless")
		Expect(failed.Status.Reason).To(Equal(string(v1alpha1.ReasonRetriesExhausted)))
		Expect(failed.Status.Message).To(ContainSubstring("no such page"))
		Expect(failed.Status.Attempt).To(BeEquivalentTo(2))
	})

	It("stops what is cancelled and keeps what is suspended", func(ctx SpecContext) {
		createReadySwarm(ctx, newSwarm("obedient", 1, 2))
		create(ctx, task("unwanted", "obedient", endlessOrder()), task("later", "obedient", endlessOrder()))
		awaitRunning(ctx, "unwanted")
		awaitRunning(ctx, "later")
		desire := func(name string, what v1alpha1.TaskDesire) {
			Expect(kubectl(ctx, "patch", "--namespace", namespace, "task", name, "--type=merge", "--patch",
				fmt.Sprintf(`{"spec":{"desired":%q}}`, what))).To(ContainSubstring("patched"))
		}
		desire("unwanted", v1alpha1.TaskCancel)
		desire("later", v1alpha1.TaskSuspend)
		awaitPhase(ctx, v1alpha1.TaskCancelled, "unwanted")
		awaitPhase(ctx, v1alpha1.TaskPending, "later")
		Expect(taskNamed(ctx, "later").Status.Reason).To(Equal(string(v1alpha1.ReasonSuspended)))
		desire("later", v1alpha1.TaskRun)
		awaitPhase(ctx, v1alpha1.TaskCompleted, "later")
		expectExactlyOnce(ctx, "obedient", []string{"later"})
	})

	It("drains the last agents before it shrinks [S03/highest-ordinals-removed, S19/scale-down, O27/kubectl-scale]", func(ctx SpecContext) {
		createReadySwarm(ctx, newSwarm("shrinking", 3, 1))
		names := createTasks(ctx, "shrinking", 3, orderLasting(6*time.Second))
		for _, name := range names {
			awaitAssigned(ctx, name)
		}
		Expect(kubectl(ctx, "scale", "--namespace", namespace, "swarm/shrinking", "--replicas=1")).To(ContainSubstring("scaled"))
		awaitPhase(ctx, v1alpha1.TaskCompleted, names...)
		for _, name := range names {
			Expect(taskNamed(ctx, name).Status.Attempt).To(BeEquivalentTo(1), "it was left to finish")
		}
		Eventually(func(g Gomega) {
			pods := &corev1.PodList{}
			g.Expect(api.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelSwarm: "shrinking"})).To(Succeed())
			g.Expect(pods.Items).To(HaveLen(1))
			g.Expect(pods.Items[0].Name).To(Equal("shrinking-worker-0"))
		}).WithContext(ctx).Should(Succeed())
		Eventually(isDeleted(ctx, &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shrinking-worker-2"}})).
			WithContext(ctx).Should(BeTrue())
	})

	It("goes with its tasks, its pods and everything else when it is deleted while tasks run [S10/cascade, S10/tasks, S10/claims-deleted]",
		func(ctx SpecContext) {
			swarm := createReadySwarm(ctx, newSwarm("fleeting", 2, 1))
			for _, name := range createTasks(ctx, "fleeting", 2, endlessOrder()) {
				awaitRunning(ctx, name)
			}
			create(ctx, task("waiting", "fleeting", endlessOrder()))
			Expect(kubectl(ctx, "delete", "--namespace", namespace, "swarm/fleeting", "--timeout=60s")).To(ContainSubstring("deleted"))

			Expect(isDeleted(ctx, swarm)()).To(BeTrue())
			tasks := &v1alpha1.TaskList{}
			Expect(api.List(ctx, tasks, client.InNamespace(namespace))).To(Succeed())
			Expect(tasks.Items).To(BeEmpty())
			Eventually(func(g Gomega) {
				for _, list := range []client.ObjectList{&v1alpha1.AgentList{}, &appsv1.StatefulSetList{}, &corev1.PodList{},
					&corev1.PersistentVolumeClaimList{}} {
					left := list
					g.Expect(api.List(ctx, left, client.InNamespace(namespace))).To(Succeed())
					g.Expect(left).To(HaveField("Items", BeEmpty()))
				}
				g.Expect(isDeleted(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fleeting-config"}})()).To(BeTrue())
				g.Expect(isDeleted(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fleeting"}})()).To(BeTrue())
			}).WithContext(ctx).Should(Succeed())
		})
})
