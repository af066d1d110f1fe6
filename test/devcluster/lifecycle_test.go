package devcluster

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
)

// expectNoLeftovers checks that nothing of the removed cluster is left, and that the machine is as before.
func expectNoLeftovers(c cluster, before machine) {
	GinkgoHelper()
	Expect(c.leftovers()).To(BeEmpty())
	Expect(theMachine()).To(Equal(before))
}

var _ = Describe("up and down", Ordered, func() {
	var c cluster
	var before machine

	BeforeAll(func() {
		skipUnlessRoot("a real node")
		before = theMachine()
		c = newCluster("lifecycle")
	})

	It("brings up a real node, and says loudly that it is not for production", func(ctx SpecContext) {
		began := time.Now()
		session := finish(c.commandByFlag("up", "--real-nodes", "1"))
		Expect(session).To(gexec.Exit(0))
		reportDuration("warm up --real-nodes 1", time.Since(began), 10*time.Second)
		Expect(string(session.Err.Contents())).To(HavePrefix(developmentNotice + "\n"))
		Expect(string(session.Out.Contents())).To(Equal("\nexport KUBECONFIG=" + filepath.Join(c.data, "kubeconfig") + "\n"))
		Expect(readyNodes(ctx, c.client(first))).To(ConsistOf("node-1"))
	}, SpecTimeout(timeout))

	It("is seen on the machine by all the traces that are looked for afterwards", func(ctx SpecContext) {
		c.serveWeb(ctx)
		Expect(c.leftovers()).To(ContainElements(
			MatchRegexp("^process .* supervise "), MatchRegexp("^process .*kube-apiserver"), MatchRegexp("^process .*containerd-shim"),
			MatchRegexp("^process .*/probe serve"), HavePrefix("interface "), HavePrefix("route "), HavePrefix("control group "),
			HavePrefix("file "),
		))
	}, SpecTimeout(timeout))

	It("is removed without a trace, with a pod running", func() {
		c.down()
		expectNoLeftovers(c, before)
	})

	It("comes up again at once in the same folder", func(ctx SpecContext) {
		c.up("--real-nodes", "1")
		Expect(readyNodes(ctx, c.client(first))).To(ConsistOf("node-1"))
	}, SpecTimeout(timeout))

	It("is removed without a trace when its supervisors were killed", func() {
		pids := c.supervisors()
		Expect(pids).To(HaveLen(2), "of the control plane and of the node")
		for _, pid := range pids {
			Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
		}
		c.down()
		expectNoLeftovers(c, before)
	})

	It("can be removed twice, or without ever having existed", func() {
		c.down()
		newCluster("never-there").down()
		expectNoLeftovers(c, before)
	})

	It("never removes a folder that is not a cluster's", func() {
		other := newCluster("holiday-pictures")
		Expect(os.Mkdir(other.data, 0o755)).To(Succeed())
		DeferCleanup(os.RemoveAll, other.data)
		picture := filepath.Join(other.data, "beach")
		Expect(os.WriteFile(picture, nil, 0o600)).To(Succeed())
		other.down()
		Expect(picture).To(BeAnExistingFile())
	})
})

// awaitPoint waits until a running `up` has reached some point.
type awaitPoint func(c cluster, session *gexec.Session)

func awaitFirstOutput(_ cluster, session *gexec.Session) {
	Eventually(session.Err).WithPolling(time.Millisecond).Should(gbytes.Say("NOT for production"))
}

func awaitInterface(c cluster, _ *gexec.Session) {
	Eventually(c.interfaces).WithPolling(time.Millisecond).ShouldNot(BeEmpty())
}

func awaitContainerd(c cluster, _ *gexec.Session) {
	Eventually(func() string {
		text, _ := os.ReadFile(filepath.Join(c.data, "logs", "node-1.log"))
		return string(text)
	}).WithPolling(time.Millisecond).Should(ContainSubstring("containerd"))
}

func awaitAPI(_ cluster, session *gexec.Session) {
	Eventually(session.Err).WithPolling(time.Millisecond).Should(gbytes.Say("the API server answers"))
}

var _ = Describe("up, cut short", func() {
	var before machine

	BeforeEach(func() {
		skipUnlessRoot("a real node")
		before = theMachine()
	})

	cut := func(reached awaitPoint) (cluster, *gexec.Session) {
		GinkgoHelper()
		c := newCluster(strings.ReplaceAll(CurrentSpecReport().LeafNodeText, " ", "-"))
		session := start(c.commandByFlag("up", "--real-nodes", "1"))
		reached(c, session)
		return c, session
	}

	DescribeTable("interrupted, cleans up after itself", func(reached awaitPoint) {
		c, session := cut(reached)
		session.Interrupt()
		Eventually(session).Should(gexec.Exit(130))
		expectNoLeftovers(c, before)
	},
		Entry("interrupted at the beginning", awaitPoint(awaitFirstOutput)),
		Entry("interrupted as containerd starts", awaitPoint(awaitContainerd)),
		Entry("interrupted as the API answers", awaitPoint(awaitAPI)),
	)

	DescribeTable("killed, leaves nothing that down does not remove", func(reached awaitPoint) {
		c, session := cut(reached)
		Eventually(session.Kill()).Should(gexec.Exit())
		c.down()
		expectNoLeftovers(c, before)
	},
		Entry("killed at the beginning", awaitPoint(awaitFirstOutput)),
		Entry("killed as the interface is made", awaitPoint(awaitInterface)),
		Entry("killed as containerd starts", awaitPoint(awaitContainerd)),
		Entry("killed as the API answers", awaitPoint(awaitAPI)),
	)
})

// Paths of sockets have at most 108 characters, and some components split their configuration at spaces.
var _ = It("takes a folder whose name is long and has spaces in it", func(ctx SpecContext) {
	skipUnlessRoot("a real node")
	c := newCluster(strings.Repeat("long ", 30) + "name")
	c.up("--real-nodes", "1")
	c.serveWeb(ctx)
	Expect(c.status().Healthy).To(BeTrue())
}, SpecTimeout(timeout))
