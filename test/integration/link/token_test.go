package link

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/swarm-io/swarm-operator/agent"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

func reviewer() *link.TokenReviewer {
	return link.NewTokenReviewer(api.AuthenticationV1().TokenReviews())
}

var _ = Describe("A token", func() {
	It("proves the pod that it is bound to", func(ctx SpecContext) {
		pod := newPod(ctx, "research-coder-0")
		identity, err := reviewer().Authenticate(ctx, tokenFor(ctx, link.Audience, pod))
		Expect(err).NotTo(HaveOccurred())
		Expect(identity).To(Equal(link.Identity{Namespace: namespace, Pod: pod.Name, PodUID: string(pod.UID)}))
	})

	DescribeTable("proves nothing", func(ctx SpecContext, token func(ctx SpecContext) string) {
		_, err := reviewer().Authenticate(ctx, token(ctx))
		Expect(err).To(MatchError(link.ErrDenied))
	},
		Entry("when it is for the API server", func(ctx SpecContext) string {
			return tokenFor(ctx, "https://kubernetes.default.svc.cluster.local", newPod(ctx, "other-audience"))
		}),
		Entry("when it is bound to no pod", func(ctx SpecContext) string { return tokenFor(ctx, link.Audience, nil) }),
		Entry("when it is garbage", func(SpecContext) string { return "garbage" }),
		Entry("when its signature is another's", func(ctx SpecContext) string {
			one := strings.Split(tokenFor(ctx, link.Audience, newPod(ctx, "signed-one")), ".")
			two := strings.Split(tokenFor(ctx, link.Audience, newPod(ctx, "signed-two")), ".")
			return one[0] + "." + one[1] + "." + two[2]
		}),
	)

	It("is worth nothing when its time is over", func(ctx SpecContext) {
		if os.Getenv("DEVCLUSTER_DATA") == "" {
			Skip("needs the key with which the API server signs tokens")
		}
		genuine := tokenFor(ctx, link.Audience, newPod(ctx, "research-coder-4"))
		_, err := reviewer().Authenticate(ctx, forgeTimes(genuine, 0))
		Expect(err).NotTo(HaveOccurred(), "signed anew it must be as good as before")
		_, err = reviewer().Authenticate(ctx, forgeTimes(genuine, -time.Hour))
		Expect(err).To(MatchError(link.ErrDenied))
		Expect(err).To(MatchError(ContainSubstring("expired")))
	})

	It("is worth nothing when its pod is gone, even if another has the same name", func(ctx SpecContext) {
		pod := newPod(ctx, "research-coder-1")
		token := tokenFor(ctx, link.Audience, pod)
		removePod(ctx, pod.Name)
		newPod(ctx, pod.Name)
		Eventually(func() error {
			_, err := reviewer().Authenticate(ctx, token) // a new one remembers nothing
			return err
		}).Should(MatchError(link.ErrDenied))
	})
})

var _ = Describe("An agent with a projected token", func() {
	It("joins under its own name and under no other", func(ctx SpecContext) {
		own, other := newPod(ctx, "research-coder-2"), newPod(ctx, "research-coder-3")
		operator := linktest.Start(GinkgoTB(), linktest.NewCA(GinkgoTB()), func(c *link.Config) { c.Authenticator = reviewer() })
		run(operator, other.Name, tokenFor(ctx, link.Audience, own))
		Eventually(func() int { return operator.MetricSum(GinkgoTB(), "swarm_link_refused_total", "other_agent") }).Should(BeNumerically(">", 0))
		Expect(operator.Events()).To(BeEmpty())

		run(operator, own.Name, tokenFor(ctx, link.Audience, own))
		operator.AwaitHello(GinkgoTB(), 1)
		joined := operator.Events()[0]
		Expect(joined.Agent).To(Equal(link.Agent{Namespace: namespace, Name: own.Name}))
		Expect(joined.PodUID).To(Equal(string(own.UID)))
	})
})

// run is an agent that lives until the test ends.
func run(operator *linktest.Operator, name, token string) {
	GinkgoHelper()
	t := GinkgoTB()
	config := agent.Config{
		Namespace: namespace, Swarm: "research", Agent: name, Slots: 1,
		Addresses: []string{operator.Address}, ServerName: linktest.ServerName,
		TokenFile: linktest.WriteFile(t, "token", []byte(token)), CAFile: operator.CA.File(t),
		Log: slog.New(slog.NewTextHandler(GinkgoWriter, nil)),
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	idle := agent.HandlerFunc(func(context.Context, agent.Task, agent.Report) (any, error) { return nil, nil })
	go func() { done <- agent.RunWith(ctx, config, idle) }()
	DeferCleanup(func() {
		cancel()
		Expect(<-done).To(Succeed())
	})
}
