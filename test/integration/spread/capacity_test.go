package spread

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

var _ = Describe("When nodes go and come", func() {
	It("[R06/node-deleted, R06/node-cordoned, R06/fallback, R06/return] pods of a node that goes come up on others of its class, on on-demand nodes when there is none, and return when there is", func(ctx SpecContext) {
		s := newCoveredEnvironment(ctx)
		w := s.deployment(ctx, "moving", 10, spreadSettings("2", "60"))
		w.awaitSettled(ctx, 4, 6)

		began := time.Now()
		cordon(ctx, s.nodeName("spot-a"), true)
		Eventually(s.onNode).WithContext(ctx).WithArguments("moving", "spot-a").Should(BeEmpty())
		w.awaitSettled(ctx, 4, 6)
		reportDuration("a cordoned node is left and replaced after", time.Since(began))
		began = time.Now()
		remove(ctx, s.nodeName("spot-b"))
		w.awaitSettled(ctx, 4, 6)
		reportDuration("a node that vanished is replaced after", time.Since(began))
		reportDuration("from the loss of the node to the first pod that the operator takes away",
			s.timeToFirstMove(began)) // make bench asserts R12/node-loss
		Expect(s.onNode(ctx, "moving", "spot-c")).To(HaveLen(6))

		seen := w.watchPods(ctx)
		cordon(ctx, s.nodeName("spot-c"), true)
		w.awaitRunning(ctx, 10, 0)
		w.status(ctx, v1alpha1.SpreadSpotUnavailable)
		w.awaitEvent(ctx, "Warning SpotUnavailable: ") // with the first of them
		Eventually(w.annotation(v1alpha1.SpreadReason)).WithContext(ctx).Should(Equal("6 pods short on spot nodes, which have no room"))
		Expect(w.annotation(v1alpha1.SpreadDesired)(ctx)).To(Equal(distribution(4, 6)))
		Expect(w.annotation(v1alpha1.SpreadCurrent)(ctx)).To(Equal(distribution(10, 0)))
		Expect(seen.Highest()).To(BeNumerically("<=", 10))

		seen = w.watchPods(ctx)
		cordon(ctx, s.nodeName("spot-c"), false)
		w.awaitSettled(ctx, 4, 6)
		Expect(seen.Lowest()).To(BeNumerically(">=", 7), "they return in steps")
	})

	It("[O06/interruption] pods are gone from a node that is drained before its deadline, and from one with a notice before it goes",
		func(ctx SpecContext) {
			s := newCoveredEnvironment(ctx)
			all := s.createBoth(ctx, "noticed", 6, spreadSettings("2", "50"))
			for _, w := range all {
				w.awaitSettled(ctx, 3, 3)
			}
			output, err := exec.CommandContext(ctx, "kubectl", "drain", s.nodeName("spot-a"), "--ignore-daemonsets",
				"--timeout=30s").CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), string(output))
			for _, w := range all {
				w.awaitSettled(ctx, 3, 3)
			}
			taintNode(ctx, s.nodeName("spot-b"))
			for _, w := range all {
				Eventually(s.onNode).WithContext(ctx).WithArguments(w.GetName(), "spot-b").Should(BeEmpty())
				w.awaitSettled(ctx, 3, 3)
				Expect(s.onNode(ctx, w.GetName(), "spot-c")).To(HaveLen(3))
			}
		})

	It("pods that wait too long for a full class fall back, and one of them finds out when there is room again", func(ctx SpecContext) {
		s := newEmptyEnvironment(ctx)
		s.nodes(ctx, onDemand)
		s.node(ctx, "tight", withLabels(map[string]string{capacity: spot}), small("2"))
		s.open(ctx)
		s.awaitCovered(ctx)
		w := s.deployment(ctx, "tight", 6, spreadSettings("", "100"))
		w.awaitRunning(ctx, 4, 2)
		w.status(ctx, v1alpha1.SpreadSpotUnavailable)
		w.awaitEvent(ctx, "Warning SpotUnavailable: ")
		Expect(verbs(s.moves())).To(Equal([]string{"delete"}), "only pods that never ran were removed")

		seen := w.watchPods(ctx)
		s.node(ctx, "wide", withLabels(map[string]string{capacity: spot}))
		w.awaitSettled(ctx, 0, 6)
		Expect(seen.Lowest()).To(BeNumerically(">=", 4))
	})

	It("pods of the floor wait for on-demand nodes and never go to spot", func(ctx SpecContext) {
		s := newEmptyEnvironment(ctx)
		s.nodes(ctx, spot)
		s.awaitCovered(ctx)
		all := s.createBoth(ctx, "floor", 6, spreadSettings("2", "50"))
		for _, w := range all {
			Eventually(s.split).WithContext(ctx).WithArguments(w.GetName()).Should(Equal(distribution(0, 4)))
			Consistently(s.lowestPodNodes).WithContext(ctx).WithArguments(w.GetName(), 2).Should(HaveEach(""))
		}
		s.nodes(ctx, onDemand)
		for _, w := range all {
			w.awaitSettled(ctx, 3, 3)
		}
	})

	It("a client that warns of every spot node as soon as it has a pod causes one move in a cooldown, and no storm", func(ctx SpecContext) {
		s := newEmptyEnvironment(ctx)
		s.nodes(ctx, onDemand)
		s.awaitCovered(ctx)
		w := s.deployment(ctx, "hunted", 8, spreadSettings("2", "50"))
		w.awaitRunning(ctx, 8, 0)
		w.status(ctx, v1alpha1.SpreadSpotUnavailable)
		seen, began, made := w.watchPods(ctx), time.Now(), 0
		const tried = 6 // moves
		for length := huntDuration(); time.Since(began) < length || len(s.moves()) < tried; {
			made++
			name := fmt.Sprintf("bait-%d", made)
			s.node(ctx, name, withLabels(map[string]string{capacity: spot}))
			Eventually(s.onNode).WithContext(ctx).WithArguments("hunted", name).ShouldNot(BeEmpty())
			taintNode(ctx, s.nodeName(name))
		}
		w.awaitRunning(ctx, 8, 0)
		took := time.Since(began)
		AddReportEntry("moves", ReportEntryVisibilityAlways, fmt.Sprintf("%d in %.1f s with %d nodes", len(s.moves()), took.Seconds(), made))
		Expect(len(s.moves())).To(BeNumerically(">=", tried), "it was tried")
		Expect(len(s.moves())).To(BeNumerically("<=", 1+int(took/cooldown)))
		Expect(seen.Highest()).To(BeNumerically("<=", 8))
		Expect(seen.Lowest()).To(BeNumerically(">=", 6))
	})
})

// timeToFirstMove returns how long after a time the API server received the operator's first request to remove a pod.
func (s *environment) timeToFirstMove(since time.Time) time.Duration {
	GinkgoHelper()
	later := slices.DeleteFunc(s.moves(), func(move request) bool { return move.Received.Before(since) })
	Expect(later).NotTo(BeEmpty())
	return later[0].Received.Sub(since)
}

// huntDuration is the minimum duration of the spec: a few cooldowns, or SPREAD_HUNT. In `make soak` it is five minutes.
func huntDuration() time.Duration {
	GinkgoHelper()
	asked := os.Getenv("SPREAD_HUNT")
	if asked == "" {
		return 10 * cooldown
	}
	wanted, err := time.ParseDuration(asked)
	Expect(err).NotTo(HaveOccurred(), "SPREAD_HUNT is a duration, such as 5m")
	return wanted
}

// onNode are the pods of a workload on a node.
func (s *environment) onNode(ctx context.Context, name, node string) ([]string, error) {
	pods, err := s.pods(ctx, name)
	var result []string
	for _, pod := range pods {
		if pod.Spec.NodeName == s.nodeName(node) && pod.DeletionTimestamp == nil {
			result = append(result, pod.Name)
		}
	}
	return result, err
}

// lowestPodNodes returns the nodes of this many pods with the lowest numbers, "" for a pod without a node.
func (s *environment) lowestPodNodes(ctx context.Context, name string, size int) ([]string, error) {
	pods, err := s.pods(ctx, name)
	var nodes []string
	for _, pod := range pods {
		if number := numberOf(pod); number >= 0 && number < size {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	return nodes, err
}

var _ = Describe("Nodes with strange labels", func() {
	It("count as spot when they have both, as on-demand when they have none, and the metrics say how many", func(ctx SpecContext) {
		const other = "example.com/tier"
		s := newEmptyEnvironment(ctx)
		leader := replicaFleet.replaceReplicas(ctx, "SWARM_NODE_LABELS_SPOT="+capacity+"=spot", "SWARM_NODE_LABELS_ON_DEMAND="+other+"=paid")
		s.node(ctx, "both", withLabels(map[string]string{capacity: spot, other: "paid"}))
		s.node(ctx, "neither")
		s.open(ctx)
		s.awaitCovered(ctx)
		w := s.deployment(ctx, "odd", 4, spreadSettings("1", "50"))
		w.status(ctx, v1alpha1.SpreadBalanced)
		Expect(s.onNode(ctx, "odd", "both")).To(HaveLen(2))
		Expect(s.onNode(ctx, "odd", "neither")).To(HaveLen(2))
		Eventually(leader.metric).WithContext(ctx).WithArguments(`swarm_spread_nodes{class="spot",labels="ambiguous"}`).Should(Equal("1"))
		Eventually(leader.metric).WithContext(ctx).WithArguments(`swarm_spread_nodes{class="on-demand",labels="unlabelled"}`).
			ShouldNot(Or(BeEmpty(), Equal("0")))
	})
})
