package swarm

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// failure is the message of an agent that has failed.
func failure(ctx context.Context, g Gomega, name string) string {
	agent := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	g.Expect(isDeleted(ctx, agent)()).To(BeFalse())
	g.Expect(agent.Status.Phase).To(Equal(v1alpha1.AgentFailed))
	return readiness(agent.Status.Conditions).Message
}

var _ = Describe("A swarm in trouble", func() {
	It("says which image does not exist and which container crashes, and lets the others work [S07/crash-loop]", func(ctx SpecContext) {
		swarm := newSwarm("partial", 4, 1)
		broken, crashing, ending := worker("broken", 1), worker("crashing", 1), worker("ending", 1)
		broken.Template.Spec.Containers[0].Image = "localhost/there-is-no-such-image:1"
		crash := []string{"/probe", "no-such-command"}
		crashing.Template.Spec.InitContainers = []corev1.Container{{Name: "setup", Image: testcluster.ProbeImage(), Command: crash}}
		ending.Runtime, ending.Template.Spec.Containers[0].Command = nil, crash
		swarm.Spec.Agents = append(swarm.Spec.Agents, broken, crashing, ending)
		create(ctx, swarm)
		Eventually(func(g Gomega) {
			g.Expect(failure(ctx, g, "partial-broken-0")).To(SatisfyAll(ContainSubstring("there-is-no-such-image"),
				ContainSubstring("check the name of the image")))
			for agent, container := range map[string]string{"partial-crashing-0": `"setup"`, "partial-ending-0": `"agent"`} {
				g.Expect(failure(ctx, g, agent)).To(SatisfyAll(
					ContainSubstring(container), ContainSubstring("see its logs"), ContainSubstring("it last ended with code 2")))
			}
			g.Expect(isDeleted(ctx, swarm)()).To(BeFalse())
			g.Expect(swarm.Status.Conditions).To(ContainElement(SatisfyAll(
				HaveField("Type", v1alpha1.ConditionDegraded), HaveField("Status", metav1.ConditionTrue),
				HaveField("Reason", string(v1alpha1.ReasonAgentsFailing)),
				HaveField("Message", SatisfyAll(ContainSubstring("3 of 4"), ContainSubstring("partial-broken-0"))))))
		}).WithContext(ctx).Should(Succeed())
		Expect(kubectl(ctx, "get", "events", "--namespace", namespace, "--field-selector", "reason=AgentsFailing")).
			To(ContainSubstring("partial"))

		create(ctx, task("anyway", "partial", taskOrder{}))
		awaitPhase(ctx, v1alpha1.TaskCompleted, "anyway")
	})

	It("is Degraded when one agent of five is broken, and the other four work [S23/degraded, S23/others-work]", func(ctx SpecContext) {
		swarm := newSwarm("mostly", 5, 1)
		broken := worker("broken", 1)
		broken.Template.Spec.Containers[0].Image = "localhost/there-is-no-such-image:1"
		swarm.Spec.Strategy = v1alpha1.SwarmSpecialized
		swarm.Spec.Agents[0].Weight, broken.Weight = 4, 1
		swarm.Spec.Agents = append(swarm.Spec.Agents, broken)
		create(ctx, swarm)
		Eventually(func(g Gomega) {
			g.Expect(isDeleted(ctx, swarm)()).To(BeFalse())
			g.Expect(swarm.Status.ActiveAgents).To(BeEquivalentTo(4))
			g.Expect(swarm.Status.Conditions).To(ContainElement(SatisfyAll(
				HaveField("Type", v1alpha1.ConditionDegraded), HaveField("Status", metav1.ConditionTrue),
				HaveField("Message", SatisfyAll(ContainSubstring("1 of 5"), ContainSubstring("mostly-broken-0"))))))
		}).WithContext(ctx).Should(Succeed())

		names := createTasks(ctx, "mostly", 8, orderLasting(2*time.Second))
		awaitPhase(ctx, v1alpha1.TaskCompleted, names...)
		for n := range 4 {
			Expect(read(ctx, fmt.Sprintf("mostly-worker-%d", n), "journal.jsonl")).To(ContainElement(HaveField("Event", "start")),
				"worker %d has worked", n)
		}
	})

	It("says that a command does not exist", func(ctx SpecContext) {
		swarm := newSwarm("lost", 1, 1)
		swarm.Spec.Agents[0].Runtime.Exec.Command = []string{"/no/such/program"}
		createReadySwarm(ctx, swarm)
		impossible := task("impossible", "lost", taskOrder{})
		impossible.Spec.Retry.Limit = new(int32(0))
		create(ctx, impossible)
		awaitPhase(ctx, v1alpha1.TaskFailed, "impossible")
		failed := taskNamed(ctx, "impossible")
		Expect(failed.Status.Reason).To(Equal("CommandNotStarted"))
		Expect(failed.Status.Message).To(SatisfyAll(ContainSubstring("/no/such/program"), ContainSubstring("does the image hold the program")))
		Expect(kubectl(ctx, "get", "events", "--namespace", namespace, "--field-selector", "reason=CommandNotStarted")).
			To(ContainSubstring("impossible"))
	})

	It("tells a crash, too much output and bad input apart, and does not try the latter two again", func(ctx SpecContext) {
		createReadySwarm(ctx, newSwarm("clumsy", 1, 3))
		crash := task("crash", "clumsy", taskOrder{Exit: 7, Message: "out of paper"})
		crash.Spec.Retry.Limit = new(int32(0))
		create(ctx, crash, task("endless", "clumsy", taskOrder{Output: 5000}), task("wrong", "clumsy", taskOrder{}))
		garbled := task("garbled", "clumsy", taskOrder{})
		garbled.Spec.Payload = &apiextensionsv1.JSON{Raw: []byte(`{"milliseconds": "many"}`)}
		create(ctx, garbled)
		awaitPhase(ctx, v1alpha1.TaskFailed, "crash", "endless", "garbled")
		awaitPhase(ctx, v1alpha1.TaskCompleted, "wrong")

		Expect(taskNamed(ctx, "crash").Status).To(SatisfyAll(HaveField("Reason", "CommandFailed"),
			HaveField("Message", SatisfyAll(ContainSubstring("exit status 7"), ContainSubstring("out of paper")))))
		Expect(taskNamed(ctx, "endless").Status).To(SatisfyAll(HaveField("Reason", string(v1alpha1.ReasonResultTooLarge)),
			HaveField("Message", ContainSubstring("4096")), HaveField("Attempt", BeEquivalentTo(1))))
		Expect(taskNamed(ctx, "garbled").Status).To(SatisfyAll(HaveField("Reason", string(v1alpha1.ReasonBadInput)),
			HaveField("Attempt", BeEquivalentTo(1))))
	})

	It("refuses a payload above the limit and names the way out", func(ctx SpecContext) {
		createReadySwarm(ctx, newSwarm("small", 1, 1))
		large := task("large", "small", taskOrder{Message: strings.Repeat("x", 9000)})
		create(ctx, large)
		awaitPhase(ctx, v1alpha1.TaskFailed, "large")
		Expect(taskNamed(ctx, "large").Status).To(SatisfyAll(
			HaveField("Reason", string(v1alpha1.ReasonPayloadTooLarge)),
			HaveField("Message", SatisfyAll(ContainSubstring("8192"), ContainSubstring("payloadFrom")))))
	})

	It("keeps a task of an unknown swarm waiting until there is one", func(ctx SpecContext) {
		create(ctx, task("early", "tardy", taskOrder{}))
		awaitPhase(ctx, v1alpha1.TaskPending, "early")
		waiting := taskNamed(ctx, "early")
		Expect(waiting.Status.Reason).To(Equal(string(v1alpha1.ReasonSwarmNotFound)))
		Expect(waiting.Status.Message).To(ContainSubstring(`no Swarm "tardy"`))
		create(ctx, newSwarm("tardy", 1, 1))
		awaitPhase(ctx, v1alpha1.TaskCompleted, "early")
	})

	It("says that no agent offers what a task needs", func(ctx SpecContext) {
		createReadySwarm(ctx, newSwarm("plain", 1, 1))
		special := task("special", "plain", taskOrder{})
		special.Spec.Capabilities = []string{"gpu"}
		create(ctx, special)
		awaitPhase(ctx, v1alpha1.TaskPending, "special")
		Expect(taskNamed(ctx, "special").Status).To(SatisfyAll(
			HaveField("Reason", string(v1alpha1.ReasonNoAgentOffers)), HaveField("Message", ContainSubstring("gpu"))))
	})

	It("gives an Agent that names no existing swarm a condition, not a crash [S06/bad-ref]", func(ctx SpecContext) {
		stray := &v1alpha1.Agent{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "stray"},
			Spec:       v1alpha1.AgentSpec{SwarmRef: v1alpha1.SwarmReference{Name: "nowhere"}, Type: "coder"},
		}
		create(ctx, stray)
		Eventually(func() string { return readiness(current(ctx, stray).Status.Conditions).Reason }).WithContext(ctx).
			Should(Equal(string(v1alpha1.ReasonSwarmNotFound)))
	})
})
