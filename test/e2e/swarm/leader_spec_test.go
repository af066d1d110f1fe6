package swarm

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/chaos"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// lastingAgents is how many agents the swarm "lasting" has.
const lastingAgents = 10

// promisedOutage is how long the API server may be away without stopping any work, with default settings.
const promisedOutage = 20 * time.Second

var _ = Describe("A hundred attempts with default settings", Ordered, func() {
	var attempts []string

	BeforeAll(func(ctx SpecContext) {
		chaos.SkipOnForeignCluster()
		const each = 10
		swarm := newSwarm("lasting", lastingAgents, each+1) // one slot of each agent stays free
		swarm.Spec.Agents[0].Runtime.Exec.GracePeriodSeconds = nil
		createReadySwarm(ctx, swarm)
		attempts = createTasks(ctx, "lasting", lastingAgents*each, endlessOrder())
		Eventually(firstAttempts).WithContext(ctx).WithTimeout(2 * timeout).Should(ConsistOf(attempts))
		Eventually(func() int { // on a busy machine an agent needs seconds to start ten programs
			started, _ := journal(ctx)
			return len(started)
		}).WithContext(ctx).WithTimeout(2 * timeout).Should(Equal(lastingAgents * each))
	})

	It("are not restarted when the leader is killed [X01/leader-killed], nor when another replica takes over", func(ctx SpecContext) {
		former := cluster.LeaseHolder(ctx)
		cluster.KillLeader(ctx)
		awaitAllAgents(ctx, "killed")
		Expect(cluster.LeaseHolder(ctx)).NotTo(Equal(former))
		expectUndisturbed(ctx, "the leader was killed", attempts)
		cluster.AwaitOperator(ctx)

		// A container that is restarted leads again at once. A leader that is frozen, as one on a lost node, is waited for by the other replica.
		old := cluster.LeaderPod(ctx)
		frozen := cluster.PodProcesses(ctx, testcluster.SystemNamespace, old)
		frozen.Freeze()
		DeferCleanup(frozen.Unfreeze)
		Eventually(cluster.LeaderPod).WithContext(ctx).ShouldNot(Equal(old))
		awaitAllAgents(ctx, "frozen")
		frozen.Unfreeze()
		expectUndisturbed(ctx, "another replica has taken over", attempts)
		cluster.AwaitOperator(ctx)
	})

	It("are not restarted when the operator is updated [X01/rolling-update]", func(ctx SpecContext) {
		Expect(kubectl(ctx, "rollout", "restart", "--namespace", testcluster.SystemNamespace, "deployment/swarm-operator")).
			To(ContainSubstring("restarted"))
		Expect(kubectl(ctx, "rollout", "status", "--namespace", testcluster.SystemNamespace, "deployment/swarm-operator", "--timeout=120s")).
			To(ContainSubstring("successfully rolled out"))
		cluster.AwaitOperator(ctx)
		awaitAllAgents(ctx, "updated")
		expectUndisturbed(ctx, "the operator was updated", attempts)
	})

	// The outage lasts as long as promised, and as the API server then takes to start.
	It("are not restarted by an outage of the API server", func(ctx SpecContext) {
		began := time.Now()
		chaos.Devcluster(ctx, "kill", "kube-apiserver")
		ask := func() error { return api.List(ctx, &v1alpha1.TaskList{}) }
		Eventually(ask).WithContext(ctx).Should(HaveOccurred())
		Consistently(ask).WithContext(ctx).WithTimeout(promisedOutage).WithPolling(time.Second).Should(HaveOccurred(), "the API server is away")
		chaos.Devcluster(ctx, "restart", "kube-apiserver")
		outage := fmt.Sprintf("an outage of the API server of %s", time.Since(began).Round(time.Second))
		AddReportEntry(outage, ReportEntryVisibilityAlways)
		awaitAllAgents(ctx, "outage")
		expectUndisturbed(ctx, outage, attempts)
		cluster.AwaitOperator(ctx)
	})
})

// awaitAllAgents waits until each agent has finished a short task of its free slot: all of them have found the leader that is there now.
func awaitAllAgents(ctx context.Context, name string) {
	GinkgoHelper()
	var names []string
	for n := range lastingAgents {
		made := task(fmt.Sprintf("short-%s-%d", name, n), "lasting", taskOrder{})
		Eventually(func() error { return client.IgnoreAlreadyExists(api.Create(ctx, made)) }).WithContext(ctx).Should(Succeed())
		names = append(names, made.Name)
	}
	awaitPhase(ctx, v1alpha1.TaskCompleted, names...)
}

// firstAttempts returns the names of all tasks that run in their first attempt.
func firstAttempts(ctx context.Context) ([]string, error) {
	running, _, err := tasksByAttempt(ctx)
	return running, err
}

// tasksByAttempt returns the names of all tasks that run in their first attempt, and the state of those that were reassigned or tried
// again.
func tasksByAttempt(ctx context.Context) (running, disturbed []string, _ error) {
	list := &v1alpha1.TaskList{}
	if err := api.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, nil, err
	}
	for n := range list.Items {
		name, status := list.Items[n].Name, &list.Items[n].Status
		switch {
		case status.Attempt > 1 || status.Reassignments > 0:
			disturbed = append(disturbed, fmt.Sprintf("%s is %s in attempt %d with %d reassignments: %s", name, status.Phase, status.Attempt,
				status.Reassignments, status.Message))
		case status.Phase == v1alpha1.TaskRunning:
			running = append(running, name)
		}
	}
	return running, disturbed, nil
}

// expectUndisturbed expects that all attempts run, and that none of them was ever stopped.
func expectUndisturbed(ctx context.Context, after string, attempts []string) {
	GinkgoHelper()
	running, disturbed, err := tasksByAttempt(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(disturbed).To(BeEmpty(), "after "+after)
	Expect(running).To(ConsistOf(attempts), "after "+after)
	started, finished := journal(ctx)
	for _, name := range attempts {
		Expect(started).To(HaveKeyWithValue(name, 1), "after "+after)
		Expect(finished).NotTo(HaveKey(name), "after "+after)
	}
}

// journal counts how often each task was started, and finished, by the agents.
func journal(ctx context.Context) (started, finished map[string]int) {
	GinkgoHelper()
	started, finished = map[string]int{}, map[string]int{}
	for n := range lastingAgents {
		for _, line := range read(ctx, fmt.Sprintf("lasting-worker-%d", n), "journal.jsonl") {
			switch line.Event {
			case "start":
				started[line.Task]++
			case "finish":
				finished[line.Task]++
			}
		}
	}
	return started, finished
}
