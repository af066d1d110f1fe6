package devcluster

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("what cannot work is refused in one line that names the fix", func() {
	var c cluster
	var before machine

	BeforeEach(func() {
		before = theMachine()
		c = newCluster("refused")
	})

	DescribeTable("up", func(try func() *exec.Cmd, fix string) {
		Expect(runExpectingFailure(try())).To(ContainSubstring(fix))
		expectNoLeftovers(c, before)
	},
		Entry("without containerd", func() *exec.Cmd {
			skipUnlessRoot("a real node")
			return withEnvironment(c.commandByFlag("up", "--real-nodes", "1"), "PATH="+c.temporary())
		}, "run `apt-get install -y containerd runc containernetworking-plugins nftables`"),
		Entry("on a port that is taken", func() *exec.Cmd { return c.commandByFlag("up", "--port", usedPort()) }, "name another with --port"),
		Entry("without Kubernetes", func() *exec.Cmd {
			return withEnvironment(c.commandByFlag("up"), "XDG_CACHE_HOME="+GinkgoT().TempDir())
		}, "run `make build`"),
		Entry("with a real node, as a plain user", func() *exec.Cmd {
			skipUnlessRoot("to become a plain user")
			command := exec.Command(copyOf(devclusterProgram), "up", "--real-nodes", "1", "--data", c.data)
			return withEnvironment(asNobody(command), "HOME="+testFolder)
		}, "run it with sudo, or use --simulated-nodes"),
		Entry("with three API servers", func() *exec.Cmd { return c.commandByFlag("up", "--apiservers", "3") }, "choose 1 or 2"),
		Entry("with no API server", func() *exec.Cmd { return c.commandByFlag("up", "--apiservers", "0") }, "choose 1 or 2"),
		Entry("with fewer than no real nodes", func() *exec.Cmd { return c.commandByFlag("up", "--real-nodes=-1") }, "choose 0 to 32"),
		Entry("with fewer than no simulated nodes", func() *exec.Cmd { return c.commandByFlag("up", "--simulated-nodes=-1") },
			"choose 0 to 5000"),
		Entry("on a port that cannot be", func() *exec.Cmd { return c.commandByFlag("up", "--port", "70000") }, "choose 1 to 65535"),
		Entry("with some nodes", func() *exec.Cmd { return c.commandByFlag("up", "--real-nodes", "some") }, "--real-nodes"),
		Entry("with a flag that is not there", func() *exec.Cmd { return c.commandByFlag("up", "--no-such-flag") }, "--no-such-flag"),
	)

	It("up on a full disk", func() {
		skipUnlessRoot("to mount a small disk")
		disk := filepath.Join(c.temporary(), "disk")
		Expect(os.Mkdir(disk, 0o755)).To(Succeed())
		Expect(syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64k")).To(Succeed())
		DeferCleanup(syscall.Unmount, disk, 0)
		onDisk := cluster{data: filepath.Join(disk, "cluster")}
		Expect(runExpectingFailure(onDisk.commandByFlag("up"))).To(ContainSubstring("free some, or name a folder on another disk with --data"))
		Expect(onDisk.leftovers()).To(BeEmpty())
	})

	It("up in a folder that holds something else", func() {
		Expect(os.Mkdir(c.data, 0o755)).To(Succeed())
		DeferCleanup(os.RemoveAll, c.data)
		Expect(os.WriteFile(filepath.Join(c.data, "beach"), nil, 0o600)).To(Succeed())
		Expect(runExpectingFailure(c.commandByFlag("up"))).
			To(ContainSubstring("is not empty and holds no cluster: name another folder with --data"))
		Expect(c.leftovers()).To(ConsistOf("file " + c.data))
	})

	It("up in the folder of a cluster that has died", func() {
		c.up()
		for _, pid := range c.supervisors() {
			Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
		}
		Eventually(c.processes).Should(BeEmpty(), "all die with their supervisor")
		Expect(runExpectingFailure(c.commandByFlag("up"))).To(ContainSubstring("run `devcluster down --data " + c.data + "` to clear it"))
		c.down()
		expectNoLeftovers(c, before)
	})

	DescribeTable("everything else, where there is no cluster", func(arguments ...string) {
		Expect(runExpectingFailure(c.commandByFlag(arguments...))).To(ContainSubstring("run `devcluster up`"))
		expectNoLeftovers(c, before)
	},
		Entry("status", "status"),
		Entry("kubeconfig", "kubeconfig"),
		Entry("logs", "logs", "etcd"),
		Entry("pause", "pause", "etcd"),
		Entry("restart", "restart", "etcd"),
	)
})

// usedPort returns a port on which this process listens until the spec ends.
func usedPort() string {
	GinkgoHelper()
	listener := listen()
	DeferCleanup(listener.Close)
	return portOf(listener)
}

// freePort returns a port without a listener.
func freePort() string {
	GinkgoHelper()
	listener := listen()
	Expect(listener.Close()).To(Succeed())
	return portOf(listener)
}

func listen() net.Listener {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	return listener
}

func portOf(listener net.Listener) string { return itoa(listener.Addr().(*net.TCPAddr).Port) }
