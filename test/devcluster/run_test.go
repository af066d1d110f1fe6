package devcluster

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
)

var _ = Describe("run", func() {
	var caller cluster // the environment in which the program is called, not the cluster that it creates
	var before machine

	BeforeEach(func() {
		before = theMachine()
		caller = newCluster("caller")
	})

	run := func(script string) *gexec.Session {
		return start(caller.command("run", "--simulated-nodes", "1", "--", "sh", "-c", script))
	}

	It("gives the command a cluster of its own, and returns its exit code", func() {
		session := run(`kubectl get nodes -o name && echo "$KUBECONFIG" && echo "$DEVCLUSTER_DATA" && exit 7`)
		Eventually(session).WithTimeout(timeout).Should(gexec.Exit(7))
		said := strings.Fields(string(session.Out.Contents()))
		Expect(said).To(HaveLen(3))
		made := cluster{data: said[2]}
		Expect(said).To(Equal([]string{"node/simulated-1", filepath.Join(made.data, "kubeconfig"), made.data}))
		Expect(made.data).NotTo(Equal(caller.data))
		Expect(made.leftovers()).To(BeEmpty())
		expectNoLeftovers(caller, before)
	})

	It("succeeds with the command", func() {
		Eventually(run("exit 0")).WithTimeout(timeout).Should(gexec.Exit(0))
		expectNoLeftovers(caller, before)
	})

	It("passes an interruption on to the command, and cleans up", func() {
		session := run(`trap 'echo "told to end"; exit 5' TERM; echo "here we are"; while :; do sleep 0.1; done`)
		Eventually(session).WithTimeout(timeout).Should(gbytes.Say("here we are"))
		session.Terminate()
		Eventually(session).Should(gexec.Exit(5))
		Expect(session).To(gbytes.Say("told to end"))
		expectNoLeftovers(caller, before)
	})

	It("cleans up when it is interrupted before the command has begun", func() {
		session := run("echo began")
		Eventually(session.Err).Should(gbytes.Say("NOT for production"))
		session.Interrupt()
		Eventually(session).Should(gexec.Exit(130))
		Expect(session.Out.Contents()).To(BeEmpty())
		expectNoLeftovers(caller, before)
	})

	// tools/suites runs its clusters in this way.
	It("cleans up when the command ends with the process that held its input, which was killed", func() {
		input, held, err := os.Pipe()
		Expect(err).NotTo(HaveOccurred())
		holder := exec.Command("sleep", "3600")
		holder.Stdout = held
		Expect(errors.Join(holder.Start(), held.Close())).To(Succeed())
		command := caller.command("run", "--simulated-nodes", "1", "--", "sh", "-c", "echo held; exec cat")
		command.Stdin = input
		session := start(command)
		Expect(input.Close()).To(Succeed())
		Eventually(session).WithTimeout(timeout).Should(gbytes.Say("held"))
		Consistently(session).WithTimeout(300 * time.Millisecond).ShouldNot(gexec.Exit())
		Expect(holder.Process.Kill()).To(Succeed())
		Expect(holder.Wait()).To(MatchError("signal: killed"))
		Eventually(session).WithTimeout(timeout).Should(gexec.Exit(0))
		expectNoLeftovers(caller, before)
	})

	It("cleans up when there is no such command", func() {
		Expect(runExpectingFailure(caller.command("run", "--", "no-such-command"))).To(ContainSubstring("no-such-command"))
		expectNoLeftovers(caller, before)
	})
})
