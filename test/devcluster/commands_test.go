package devcluster

import (
	"os"
	"os/exec"
	"regexp"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
)

// developmentNotice opens everything that brings up a cluster.
const developmentNotice = "A cluster for development and tests. NOT for production."

// failureOutput is the last output of a program that failed, after the notice and its progress.
var failureOutput = regexp.MustCompile(`\A(?:` + regexp.QuoteMeta(developmentNotice) + `\n)?(?: *[0-9.]+ s  .*\n)*(devcluster: .*)\n\z`)

// start runs a command and goes on; its output is shown when the spec fails.
func start(command *exec.Cmd) *gexec.Session {
	GinkgoHelper()
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	return session
}

// finish runs a command to its end, whatever that is.
func finish(command *exec.Cmd) *gexec.Session {
	GinkgoHelper()
	session := start(command)
	Eventually(session).WithTimeout(timeout).Should(gexec.Exit())
	return session
}

// runSuccessfully runs a command that must go well and gives what it printed.
func runSuccessfully(command *exec.Cmd) string {
	GinkgoHelper()
	session := finish(command)
	Expect(session).To(gexec.Exit(0))
	return string(session.Out.Contents())
}

// output is what a command prints that must go well. It is not shown: only the specs care for it.
func output(command *exec.Cmd) []byte {
	GinkgoHelper()
	text, err := command.Output()
	Expect(err).NotTo(HaveOccurred())
	return text
}

// runExpectingFailure runs a command that must fail and returns its only line of complaint.
func runExpectingFailure(command *exec.Cmd) string {
	GinkgoHelper()
	session := finish(command)
	Expect(session).To(gexec.Exit(1))
	said := failureOutput.FindSubmatch(session.Err.Contents())
	Expect(said).NotTo(BeNil(), "it complains in one line:\n%s", session.Err.Contents())
	return string(said[1])
}

// withEnvironment adds to the environment of a command.
func withEnvironment(command *exec.Cmd, variables ...string) *exec.Cmd {
	command.Env = append(command.Env, variables...)
	return command
}

// unprivileged is the UID of a user who owns nothing.
const unprivileged = 65534

// asNobody takes all rights from a command.
func asNobody(command *exec.Cmd) *exec.Cmd {
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
	command.Dir = testFolder
	return command
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
