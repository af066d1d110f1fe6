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

// developmentNotice is the first output of every command that starts a cluster.
const developmentNotice = "A cluster for development and tests. NOT for production."

// failureOutput returns the last output of a failed program, after the notice and the progress.
var failureOutput = regexp.MustCompile(`\A(?:` + regexp.QuoteMeta(developmentNotice) + `\n)?(?: *[0-9.]+ s  .*\n)*(devcluster: .*)\n\z`)

// start starts a command and returns; its output is shown when the spec fails.
func start(command *exec.Cmd) *gexec.Session {
	GinkgoHelper()
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	return session
}

// finish runs a command until it ends, successfully or not.
func finish(command *exec.Cmd) *gexec.Session {
	GinkgoHelper()
	session := start(command)
	Eventually(session).WithTimeout(timeout).Should(gexec.Exit())
	return session
}

// runSuccessfully runs a command that must succeed, and returns its output.
func runSuccessfully(command *exec.Cmd) string {
	GinkgoHelper()
	session := finish(command)
	Expect(session).To(gexec.Exit(0))
	return string(session.Out.Contents())
}

// output returns the output of a command that must succeed, without showing it.
func output(command *exec.Cmd) []byte {
	GinkgoHelper()
	text, err := command.Output()
	Expect(err).NotTo(HaveOccurred())
	return text
}

// runExpectingFailure runs a command that must fail, and returns its single error line.
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

// unprivileged is the UID of a user without any files or permissions.
const unprivileged = 65534

// asNobody runs a command without privileges.
func asNobody(command *exec.Cmd) *exec.Cmd {
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
	command.Dir = testFolder
	return command
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
