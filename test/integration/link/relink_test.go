package link

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/agent"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

const (
	lease = 45 * time.Second // the default
	// RELINK_AGENTS and RELINK_GAP (a duration) set the number of agents and the time without a leader. After a crash that is up to 20 s.
	fewAgents, shortGap = 200, 5 * time.Second
	// The maximum number of reviews: those of single tokens (20, and 2 per second), and one for the service account every 10 s.
	reviewsAtFirst, reviewsPerSecond = 21, 3
)

var _ = Describe("A change of leader", func() {
	It("finds every agent at the next leader within its lease, with everything still running, and costs few token reviews",
		func(ctx SpecContext) {
			count, gap := fewAgents, shortGap
			if text := os.Getenv("RELINK_AGENTS"); text != "" {
				count = must(strconv.Atoi(text))
			}
			if text := os.Getenv("RELINK_GAP"); text != "" {
				gap = must(time.ParseDuration(text))
			}
			ca := linktest.NewCA(GinkgoTB())
			firstTokens, nextTokens := &countingAuthenticator{}, &countingAuthenticator{}
			oneAddress := func(config *link.Config) { config.Limits.ConnectionsPerSource = count } // all agents are on this machine
			first := linktest.Start(GinkgoTB(), ca, linktest.WithLease(lease), firstTokens.authenticate, oneAddress)
			next := linktest.Start(GinkgoTB(), ca, linktest.WithLease(lease), nextTokens.authenticate, oneAddress)
			next.Leader.Follow(first.Address)

			agents := &agentGroup{}
			agents.start(ctx, count, first, next) // the next leader has not seen any of them before
			Eventually(first.MetricSum).WithArguments(GinkgoTB(), "swarm_link_agents", "").WithTimeout(2 * time.Minute).Should(Equal(count))
			agents.assignEach(first)
			Eventually(agents.working.Load).WithTimeout(time.Minute).Should(BeEquivalentTo(count))
			report("agents", count)
			report("token reviews at the start", firstTokens.reviews.Load())

			began, before, refusedBefore := time.Now(), nextTokens.reviews.Load(), refusalsByReason(next)
			next.Leader.Follow("") // there is no leader
			first.Stop()
			time.Sleep(gap)
			next.Leader.Lead(2)
			elected := time.Now()
			Eventually(next.MetricSum).WithArguments(GinkgoTB(), "swarm_link_agents", "").WithTimeout(lease).Should(Equal(count))
			took := time.Since(began)
			report("all agents linked after the election", time.Since(elected).Round(10*time.Millisecond))

			reviews := nextTokens.reviews.Load() - before
			report("token reviews, lists of pods", reviews, nextTokens.lists.Load())
			Expect(reviews).To(BeNumerically("<=", reviewsAtFirst+reviewsPerSecond*took.Seconds()))
			for _, joined := range next.Events() {
				if joined.Hello != nil {
					Expect(joined.Hello.GetRunning()).To(HaveLen(1), joined.Agent.Name)
				}
			}
			Expect(refusalsByReason(next)).To(Equal(refusedBefore))
			Expect(agents.stopped.Load()).To(BeZero(), "no attempt was told to stop")
			Expect(agents.fenced.Load()).To(BeZero())
		})
})

// refusalsByReason counts the agents that were not let in, by reason. Agents that were redirected to another replica are not included.
func refusalsByReason(operator *linktest.Operator) map[string]int {
	counts := map[string]int{}
	for _, reason := range []string{"token_denied", "token_unproven", "too_many_connections", "too_many_streams"} {
		counts[reason] = operator.MetricSum(GinkgoTB(), "swarm_link_refused_total", reason)
	}
	return counts
}

func report(what string, values ...any) {
	AddReportEntry(what, ReportEntryVisibilityAlways, fmt.Sprint(values...))
}

func must[T any](value T, err error) T {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	return value
}

// countingAuthenticator is an authenticator on the real API server that counts what it costs.
type countingAuthenticator struct {
	reviews, lists atomic.Int64
}

func (c *countingAuthenticator) authenticate(config *link.Config) {
	config.Authenticator = link.NewTokenAuthenticator(link.TokenOptions{
		Reviews: c, Pods: c.pods, IsClockReliable: func() bool { return true },
		Documents: func(ctx context.Context, path string) ([]byte, error) {
			return api.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(ctx)
		},
	})
}

// Create implements link.TokenReviews.
func (c *countingAuthenticator) Create(ctx context.Context, review *authenticationv1.TokenReview,
	options metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	c.reviews.Add(1)
	return api.AuthenticationV1().TokenReviews().Create(ctx, review, options)
}

func (c *countingAuthenticator) pods(ctx context.Context) ([]link.Identity, error) {
	c.lists.Add(1)
	list, err := api.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelSwarm})
	if err != nil {
		return nil, err
	}
	var pods []link.Identity
	for n := range list.Items {
		pods = append(pods, link.Identity{Namespace: list.Items[n].Namespace, Pod: list.Items[n].Name, PodUID: string(list.Items[n].UID)})
	}
	return pods, nil
}

// An agentGroup is agents of real pods, each of which runs one attempt until the spec ends.
type agentGroup struct {
	names                    []string
	working, stopped, fenced atomic.Int64
	finished                 atomic.Bool
}

// start creates the pods and runs their agents, which know both operators.
func (w *agentGroup) start(ctx SpecContext, count int, operators ...*linktest.Operator) {
	GinkgoHelper()
	config := agent.Config{
		Namespace: namespace, Swarm: "research", Slots: 1, ServerName: linktest.ServerName, CAFile: operators[0].CA.File(GinkgoTB()),
		Abort: func(string) { w.fenced.Add(1) },
	}
	for _, operator := range operators {
		config.Addresses = append(config.Addresses, operator.Address)
	}
	running, stop := context.WithCancel(context.Background())
	var agents sync.WaitGroup
	DeferCleanup(func() {
		w.finished.Store(true)
		stop()
		agents.Wait()
	})
	folder := GinkgoT().TempDir()
	inParallel(8, count, func(n int) {
		own := config
		own.Agent = fmt.Sprintf("relink-%d", n)
		own.TokenFile, own.StateDir, own.RuntimeDir = fmt.Sprintf("%s/token-%d", folder, n), folder, folder
		Expect(os.WriteFile(own.TokenFile, []byte(tokenFor(ctx, link.Audience, newAgentPod(ctx, own.Agent))), 0o600)).To(Succeed())
		agents.Go(func() {
			defer GinkgoRecover()
			Expect(agent.RunWith(running, own, w)).To(Succeed())
		})
	})
	for n := range count {
		w.names = append(w.names, fmt.Sprintf("relink-%d", n))
	}
}

// Handle implements agent.Handler.
func (w *agentGroup) Handle(ctx context.Context, _ agent.Task, _ agent.Report) (any, error) {
	w.working.Add(1)
	<-ctx.Done()
	if !w.finished.Load() {
		w.stopped.Add(1)
	}
	return nil, ctx.Err()
}

// assignEach gives an attempt to each agent, as soon as it has granted credit.
func (w *agentGroup) assignEach(operator *linktest.Operator) {
	GinkgoHelper()
	for n, name := range w.names {
		attempt := linktest.Attempt(name, 1<<32|int64(n+1))
		attempt.Namespace = namespace
		assign := linktest.AssignWith(&linkv1.Assign{Attempt: attempt, Payload: []byte("{}")})
		Eventually(operator.Send).WithArguments(link.Agent{Namespace: namespace, Name: name}, assign).WithTimeout(time.Minute).Should(Succeed())
	}
}

// newAgentPod is a pod with the label of a swarm. It goes with its namespace.
func newAgentPod(ctx SpecContext, name string) *corev1.Pod {
	GinkgoHelper()
	pod := gatedPod(name)
	pod.Labels = map[string]string{v1alpha1.LabelSwarm: "research"}
	return must(api.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}))
}

func inParallel(workers, count int, work func(n int)) {
	var group sync.WaitGroup
	var next atomic.Int64
	for range workers {
		group.Go(func() {
			defer GinkgoRecover()
			for n := int(next.Add(1)) - 1; n < count; n = int(next.Add(1)) - 1 {
				work(n)
			}
		})
	}
	group.Wait()
}
