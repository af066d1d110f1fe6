package devcluster

import (
	"encoding/json"
	"net/netip"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
)

// Most specs share two clusters, since starting one takes time. The later files damage the first one more and more.
var _ = Describe("two clusters at once", Ordered, ContinueOnFailure, func() {
	var east, west cluster
	var before machine

	BeforeAll(func() {
		skipUnlessRoot("a real node")
		before = theMachine()
		east, west = newCluster("east"), newCluster("west")
		both := []*gexec.Session{
			start(east.commandByFlag("up", "--real-nodes", "1", "--simulated-nodes", "1", "--apiservers", "2", "--audit")),
			start(west.commandByFlag("up", "--real-nodes", "1", "--fsync")),
		}
		for _, session := range both {
			Eventually(session).WithTimeout(timeout).Should(gexec.Exit(0))
		}
	})

	It("are both Ready", func(ctx SpecContext) {
		Expect(readyNodes(ctx, east.client(first))).To(ConsistOf("node-1", "simulated-1"))
		Expect(readyNodes(ctx, west.client(first))).To(ConsistOf("node-1"))
	}, SpecTimeout(timeout))

	It("run pods and reach their own Services", func(ctx SpecContext) {
		for _, c := range []cluster{east, west} {
			c.serveWeb(ctx)
			Eventually(c.requestWeb).Should(Equal("web\n"))
		}
	}, SpecTimeout(timeout))

	It("listen on the loopback and on their own networks alone", func() {
		for _, c := range []cluster{east, west} {
			found := c.listeners()
			Expect(found).To(ContainElement(HaveField("Address", HaveField("Addr()", c.bridgeAddress()))), "the way in from pods")
			Expect(found).To(ContainElement(HaveField("Address", netip.MustParseAddrPort(strings.TrimPrefix(c.status().Server, "https://")))))
			for _, one := range found {
				Expect(one.Address.Addr()).To(Or(HaveField("IsLoopback()", true), Equal(c.bridgeAddress())), "%s", one)
			}
		}
		Expect(east.bridgeAddress()).NotTo(Equal(west.bridgeAddress()))
	})

	It("write through to the disk only when asked", func() {
		Expect(east.argumentsOf("etcd")).To(ContainElement("--unsafe-no-fsync"))
		Expect(west.argumentsOf("etcd")).NotTo(ContainElement("--unsafe-no-fsync"))
	})

	It("do not end together, even when the one that ends is frozen", func() {
		runSuccessfully(west.commandByFlag("pause", "etcd"))
		runSuccessfully(west.commandByFlag("pause", "node-1/kubelet"))
		west.down()
		Expect(west.leftovers()).To(BeEmpty())
		Eventually(east.requestWeb).Should(Equal("web\n"))
		Expect(east.status().Healthy).To(BeTrue())
	})

	describeLooking(&east)
	describeAudit(&east)
	describeSecondServer(&east)
	describeFaults(&east)

	It("are both gone without a trace", func() {
		east.down()
		expectNoLeftovers(east, before)
	})
})

// describeLooking tests the commands that change nothing.
func describeLooking(c *cluster) {
	It("refuses a second cluster in the same folder", func() {
		Expect(runExpectingFailure(c.commandByFlag("up"))).To(ContainSubstring("run `devcluster down` first, or name another folder with --data"))
		Expect(c.status().Healthy).To(BeTrue())
	})

	It("shows its components as a table and as JSON", func() {
		Expect(runSuccessfully(c.commandByFlag("status"))).To(And(
			MatchRegexp(`(?m)^nodes +2 of 2 Ready$`), MatchRegexp(`(?m)^COMPONENT +STATE +PID$`), MatchRegexp(`(?m)^kube-scheduler +running +\d+$`),
		))
		var told status
		Expect(json.Unmarshal(output(c.commandByFlag("status", "-o", "json")), &told)).To(Succeed())
		Expect(told.Data).To(Equal(c.data))
		Expect(told.Components).To(HaveEach(And(HaveField("State", "running"), HaveField("PID", BeNumerically(">", 0)))))
		Expect(told.Components).To(ConsistOf(
			HaveField("Name", "etcd"), HaveField("Name", "kube-apiserver"), HaveField("Name", "etcd-link"), HaveField("Name", "kube-apiserver-2"),
			HaveField("Name", "kube-controller-manager"), HaveField("Name", "kube-scheduler"), HaveField("Name", "kwok"),
			HaveField("Name", "api-link"), HaveField("Name", "coredns"), HaveField("Name", "provisioner"),
			HaveField("Name", "node-1/containerd"), HaveField("Name", "node-1/kubelet"), HaveField("Name", "node-1/kube-proxy"),
		))
	})

	It("is reached at the loopback by the kubeconfig that it prints", func(ctx SpecContext) {
		Expect(string(output(c.commandByFlag("kubeconfig")))).To(MatchRegexp(`server: "?https://127\.0\.0\.1:\d+`))
		for _, server := range []string{first, second} {
			client := c.client(server)
			Expect(client.RESTClient().Get().URL().Hostname()).To(Equal("127.0.0.1"))
			Expect(checkEtcd(ctx, client)).To(Succeed())
		}
	}, SpecTimeout(timeout))

	It("prints the logs of a component by its full name and by its short one", func() {
		Expect(string(output(c.commandByFlag("logs", "kube-scheduler")))).To(ContainSubstring("Starting Kubernetes Scheduler"))
		full := output(c.commandByFlag("logs", "node-1/kubelet"))
		Expect(full).NotTo(BeEmpty())
		Expect(string(output(c.commandByFlag("logs", "kubelet")))).To(HavePrefix(string(full)))
	})

	It("names all components to who asks for one that is not there", func() {
		for _, verb := range []string{"pause", "resume", "kill", "restart", "logs"} {
			Expect(runExpectingFailure(c.commandByFlag(verb, "kube-skeduler"))).
				To(ContainSubstring("name one of etcd, kube-apiserver, etcd-link, kube-apiserver-2, "))
		}
	})
}
