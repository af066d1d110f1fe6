// Package cli tests `kubectl swarm` as a program on a real API server: its output and exit code, with objects in the state in which the
// operator would leave them. No operator runs.
package cli

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// Set once, before the first test.
var (
	api       client.Client
	namespace string
)

func TestCLI(t *testing.T) {
	testcluster.PrepareIntegration(t, 2*time.Minute, 50*time.Millisecond)
	RunSpecs(t, "kubectl swarm")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	api = testcluster.Connect().API
	testcluster.InstallCRDs(ctx)
	namespace = newNamespace(ctx)
	createPools(ctx, namespace)
})

// newNamespace creates a namespace that is deleted when the spec ends.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	return testcluster.NewNamespace(ctx, api, "swarm-cli-", nil)
}

// commandResult is the exit code and the output of the program.
type commandResult struct {
	code        int
	out, stderr string
}

// runCommand runs the program in the suite's namespace.
func runCommand(arguments ...string) commandResult {
	GinkgoHelper()
	return runCommandIn(namespace, arguments...)
}

// runCommandIn runs the program in a namespace.
func runCommandIn(namespace string, arguments ...string) commandResult {
	GinkgoHelper()
	return runToEnd(exec.Command(testcluster.FromRoot("bin", "kubectl-swarm"), append(arguments, "--namespace", namespace)...))
}

// runToEnd runs a command to its end.
func runToEnd(command *exec.Cmd) commandResult {
	GinkgoHelper()
	session, err := gexec.Start(command, gbytes.NewBuffer(), gbytes.NewBuffer())
	Expect(err).NotTo(HaveOccurred(), "run `make build` first")
	Eventually(session).Should(gexec.Exit())
	return commandResult{session.ExitCode(), string(session.Out.Contents()), string(session.Err.Contents())}
}

// runSuccessfully is the program's output when it succeeds.
func runSuccessfully(line string) string {
	GinkgoHelper()
	got := runCommand(strings.Fields(line)...)
	Expect(got.code).To(Equal(0), got.stderr)
	Expect(got.stderr).To(BeEmpty())
	return got.out
}

// row matches a line of a table by its words.
func row(words string) string {
	return `(?m)^` + strings.ReplaceAll(words, " ", ` +`) + ` *$`
}
