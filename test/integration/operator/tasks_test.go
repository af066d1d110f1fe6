package operator

import (
	"context"
	"os"
	"regexp"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/history"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// The specs share one swarm, one operator and its agents, from the creation of the swarm to its deletion. The operator resyncs once in an
// hour: whatever it does here, a watch or an agent has caused.
var _ = Describe("A Swarm at work", Ordered, Serial, func() {
	var (
		ns, metrics string
		settings    []string
		session     *gexec.Session
		agents      *agentHandler
		swarm       *v1alpha1.Swarm
		phases      *history.History[v1alpha1.SwarmPhase]
		still       *driftCheck
	)

	BeforeAll(func(ctx SpecContext) {
		ns, metrics = namespace(ctx, nil), ports.Free()
		settings = []string{
			onlyNamespace(ns), linkAddress, "SWARM_CONTROLLER_RESYNC_PERIOD=1h", "SWARM_CONTROLLER_LEADER_ELECTION_NAMESPACE=" + ns,
			"SWARM_METRICS_ENABLED=true", "SWARM_METRICS_SECURE=false", "SWARM_METRICS_PORT=" + metrics,
		}
		agents = runAgents(ctx, ns)
		swarm = newTeam(ns, "ants", 2)
		phases = history.Watch(ctx, api, &v1alpha1.SwarmList{}, swarm, func(s *v1alpha1.Swarm) v1alpha1.SwarmPhase { return s.Status.Phase })
		session = startOperator(settings...)
		Expect(api.Create(ctx, swarm)).To(Succeed())
		still = startDrift(ctx)
	})

	It("[S05/observed-generation] is Ready when all agents are linked, and says which generation that is about", func(ctx SpecContext) {
		testcluster.MustKubectl(ctx, "wait", "--namespace", ns, "swarm/ants", "--for=condition=Ready", "--timeout=60s")
		change(ctx, swarm, func() { swarm.Spec.Replicas = new(int32(3)) })
		Eventually(func(g Gomega) {
			g.Expect(api.Get(ctx, client.ObjectKeyFromObject(swarm), swarm)).To(Succeed())
			g.Expect(swarm.Status).To(And(HaveField("ObservedGeneration", swarm.Generation), HaveField("ActiveAgents", BeEquivalentTo(3))))
			g.Expect(meta.FindStatusCondition(swarm.Status.Conditions, v1alpha1.ConditionReady)).To(And(
				HaveField("Status", metav1.ConditionTrue), HaveField("ObservedGeneration", swarm.Generation)))
		}).WithContext(ctx).Should(Succeed())
	})

	It("[S18/task-seen] [S14/three-controllers] gives a new task to an agent at once", func(ctx SpecContext) {
		submit(ctx, swarm, "quick", taskOrder{})
		Eventually(phaseOf(ns, "quick")).WithContext(ctx).WithTimeout(20*time.Second).Should(Equal(v1alpha1.TaskCompleted),
			"before anything is reconciled again by itself")
		for _, controller := range []string{"swarm", "agent", "task"} {
			Expect(series(ctx, metrics, "controller_runtime_reconcile_total", `controller="`+controller+`"`)).To(BeNumerically(">", 0), controller)
		}
	})

	It("[S09/monotone] never shows less progress than before, and 100 at completion", func(ctx SpecContext) {
		task := submit(ctx, swarm, "steady", taskOrder{Reports: []int{10, 40, 30}, Hold: true})
		progress := history.Watch(ctx, api, &v1alpha1.TaskList{}, task, func(t *v1alpha1.Task) int32 { return t.Status.Progress })
		Eventually(progress.List).WithContext(ctx).Should(ContainElement(BeNumerically(">", 0)))
		Expect(progress.List(Default)).To(HaveEach(BeElementOf(int32(0), int32(40))), "30 was reported after 40")
		agents.release("steady")
		Eventually(phaseOf(ns, "steady")).WithContext(ctx).Should(Equal(v1alpha1.TaskCompleted))
		Eventually(progress.List).WithContext(ctx).Should(ContainElement(BeEquivalentTo(100)))
		Expect(slices.IsSorted(progress.List(Default))).To(BeTrue(), "%v", progress.List(Default))
	})

	It("[S26/heartbeat-condition] shows on the Agent that its pod was lost, and that the next one reports", func(ctx SpecContext) {
		agent := objectAt(&v1alpha1.Agent{}, ns, "ants-worker-0")
		Expect(api.Get(ctx, client.ObjectKeyFromObject(agent), agent)).To(Succeed())
		heard, pod := agent.Status.LastHeartbeat, agent.Status.PodUID
		Expect(heard).NotTo(BeNil())
		linked := history.Watch(ctx, api, &v1alpha1.AgentList{}, agent, linkedReason)
		seen := history.Watch(ctx, api, &v1alpha1.AgentList{}, agent, func(a *v1alpha1.Agent) v1alpha1.AgentPhase { return a.Status.Phase })
		Expect(api.Delete(ctx, objectAt(&corev1.Pod{}, ns, agent.Name))).To(Succeed())
		Eventually(linked.List).WithContext(ctx).Should(Equal([]string{"True Linked", "False LinkLost", "True Linked"}))
		Eventually(seen.List).WithContext(ctx).Should(Equal([]v1alpha1.AgentPhase{v1alpha1.AgentRunning, v1alpha1.AgentPending,
			v1alpha1.AgentRunning}))
		Expect(api.Get(ctx, client.ObjectKeyFromObject(agent), agent)).To(Succeed())
		Expect(agent.Status.PodUID).NotTo(Equal(pod))
		Expect(agent.Status.LastHeartbeat.Time).To(BeTemporally(">=", heard.Time))
	})

	It("[S30/metrics] serves every metric that the documentation names", func(ctx SpecContext) {
		names := documentedMetrics("reference/task.md", "explanation/link.md", "explanation/kit.md")
		Expect(len(names)).To(BeNumerically(">=", 14))
		_, text, err := visit(ctx, metricsURL("http", metrics), "")
		Expect(err).NotTo(HaveOccurred())
		for _, name := range names {
			Expect(text).To(MatchRegexp(`(?m)^# TYPE %s (counter|gauge|histogram)$`, name))
		}
		Expect(series(ctx, metrics, "swarm_task_attempts_total", `outcome="succeeded"`)).To(BeEquivalentTo(2))
		Expect(text).To(MatchRegexp(`(?m)^swarm_link_agents 3$`))
	})

	It("[S30/events] is described by kubectl with conditions and events", func(ctx SpecContext) {
		Eventually(testcluster.Kubectl).WithContext(ctx).WithArguments("describe", "--namespace", ns, "swarm/ants").Should(
			MatchRegexp(`(?s)Conditions:.*Type:\s+Ready.*Events:.*Normal\s+Available\s.*all \d agents are ready for work`))
		Expect(testcluster.MustKubectl(ctx, "describe", "--namespace", ns, "agent/ants-worker-0")).
			To(MatchRegexp(`(?s)Conditions:.*Type:\s+Linked.*Events:.*Normal\s+Linked\s`))
	})

	It("[O12/status-only] is not reconciled because a status has changed", func(ctx SpecContext) {
		expectNoReconcile(ctx, metrics, ns)
	})

	It("[K18/swarm] [K18/agent] [K18/task] gets its status back when it is wiped, as do its Agents and Tasks", func(ctx SpecContext) {
		waiting := submit(ctx, swarm, "special", taskOrder{}, func(s *v1alpha1.TaskSpec) { s.Capabilities = []string{"gpu"} })
		Eventually(phaseOf(ns, "special")).WithContext(ctx).Should(Equal(v1alpha1.TaskPending))
		running := submit(ctx, swarm, "endless", taskOrder{Hold: true})
		Eventually(phaseOf(ns, "endless")).WithContext(ctx).Should(Equal(v1alpha1.TaskRunning))
		expectRestored(ctx, objectAt(&v1alpha1.Agent{}, ns, "ants-worker-1"), nil)
		expectRestored(ctx, waiting, nil)
		expectRestored(ctx, running, []string{"epoch"})
		// The swarm has counted the agent without a status, and counts it again.
		testcluster.MustKubectl(ctx, "wait", "--namespace", ns, "swarm/ants", "--for=condition=Ready", "--timeout=60s")
		expectRestored(ctx, swarm, nil, "epoch") // which grows with the tasks
	})

	It("[K18/task-wipe-refused] keeps the epoch and the final phase of a Task when a user wipes them", func(ctx SpecContext) {
		fenced := objectAt(&v1alpha1.Task{}, ns, "endless")
		Expect(wipeStatus(ctx, fenced, nil)).To(MatchError(ContainSubstring("epoch never decreases and is never removed")))
		finished := objectAt(&v1alpha1.Task{}, ns, "quick")
		Expect(wipeStatus(ctx, finished, nil)).To(MatchError(ContainSubstring("a finished task keeps its phase")))
		agents.release("endless")
	})

	It("keeps a finished task for ttlSecondsAfterFinished, and no longer", func(ctx SpecContext) {
		const seconds = 2
		kept := submit(ctx, swarm, "kept", taskOrder{}, func(s *v1alpha1.TaskSpec) { s.TTLSecondsAfterFinished = new(int32(600)) })
		brief := submit(ctx, swarm, "brief", taskOrder{}, func(s *v1alpha1.TaskSpec) { s.TTLSecondsAfterFinished = new(int32(seconds)) })
		Eventually(phaseOf(ns, "brief")).WithContext(ctx).Should(Equal(v1alpha1.TaskCompleted))
		Expect(api.Get(ctx, client.ObjectKeyFromObject(brief), brief)).To(Succeed())
		expires := brief.Status.CompletionTime.Add(seconds * time.Second)
		Eventually(func(ctx context.Context) bool { return isDeleted(ctx, brief) }).WithContext(ctx).WithTimeout(seconds*time.Second +
			5*time.Second).Should(BeTrue())
		Expect(time.Now()).To(BeTemporally(">=", expires))
		Expect(isDeleted(ctx, kept)).To(BeFalse())
	})

	It("[S16/drift-repaired] repairs within 30 s what no event tells of, by default", func(ctx SpecContext) {
		still.expectRepaired(ctx)
	})

	It("[S13/stays-terminating] [S13/drains-then-removed] [S10/tasks] [S05/phases] drains its tasks before it goes, and waits for the operator to do so", func(ctx SpecContext) {
		submit(ctx, swarm, "last", taskOrder{Hold: true})
		Eventually(phaseOf(ns, "last")).WithContext(ctx).Should(Equal(v1alpha1.TaskRunning))
		before, err := pods(ctx, ns)
		Expect(err).NotTo(HaveOccurred())
		Eventually(session.Terminate()).Should(gexec.Exit(0))
		Expect(api.Delete(ctx, swarm)).To(Succeed())
		Consistently(isTerminating).WithContext(ctx).WithArguments(swarm).WithTimeout(time.Second).Should(BeTrue())
		Expect(agents.stopRequested("last")).To(BeFalse())

		session = startOperator(settings...)
		Eventually(agents.stopRequested).WithArguments("last").Should(BeTrue())
		Consistently(isTerminating).WithContext(ctx).WithArguments(swarm).WithTimeout(time.Second).Should(BeTrue(),
			"the attempt has not ended yet")
		Expect(serving(ctx, ns)).To(ConsistOf(before), "agents stay until they hold nothing")
		shown := slices.DeleteFunc(phases.List(Default), func(phase v1alpha1.SwarmPhase) bool { return phase == "" }) // new, or wiped by a spec
		Expect(slices.Compact(shown)).To(Equal([]v1alpha1.SwarmPhase{v1alpha1.SwarmPhaseInitializing, v1alpha1.SwarmPhaseRunning,
			v1alpha1.SwarmPhaseTerminating}))

		agents.release("last")
		Eventually(func(ctx context.Context) bool { return isDeleted(ctx, swarm) }).WithContext(ctx).Should(BeTrue())
		left := &v1alpha1.TaskList{}
		Expect(api.List(ctx, left, client.InNamespace(ns))).To(Succeed())
		Expect(left.Items).To(BeEmpty())
		Eventually(pods).WithContext(ctx).WithArguments(ns).Should(BeEmpty())
	})
})

// phaseOf is for Eventually.
func phaseOf(ns, task string) func(context.Context) (v1alpha1.TaskPhase, error) {
	return func(ctx context.Context) (v1alpha1.TaskPhase, error) {
		found := &v1alpha1.Task{}
		err := api.Get(ctx, client.ObjectKey{Namespace: ns, Name: task}, found)
		return found.Status.Phase, err
	}
}

// linkedReason is the Linked condition in two words.
func linkedReason(agent *v1alpha1.Agent) string {
	linked := meta.FindStatusCondition(agent.Status.Conditions, v1alpha1.ConditionLinked)
	if linked == nil {
		return ""
	}
	return string(linked.Status) + " " + linked.Reason
}

// documentedMetrics are the names of metrics in pages of the documentation.
func documentedMetrics(pages ...string) []string {
	GinkgoHelper()
	var names []string
	for _, page := range pages {
		text, err := os.ReadFile(fromRoot("docs", page))
		Expect(err).NotTo(HaveOccurred())
		names = append(names, regexp.MustCompile(`\bswarm_(task|link|reconcile)_[a-z_]+`).FindAllString(string(text), -1)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// isTerminating reports whether a swarm is being deleted and held back by its finalizer.
func isTerminating(ctx context.Context, swarm *v1alpha1.Swarm) (bool, error) {
	err := api.Get(ctx, client.ObjectKeyFromObject(swarm), swarm)
	return !swarm.DeletionTimestamp.IsZero() && slices.Contains(swarm.Finalizers, v1alpha1.Finalizer), err
}

// serving are the pods that are not being deleted.
func serving(ctx context.Context, ns string) ([]string, error) {
	list := &corev1.PodList{}
	err := api.List(ctx, list, client.InNamespace(ns))
	var names []string
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			names = append(names, pod.Name)
		}
	}
	return names, err
}
