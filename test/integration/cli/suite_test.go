// Package cli proves `kubectl swarm` as a program on a real API server: its output and its exit code, on objects that are made by hand in
// the state in which the operator leaves them. No operator runs.
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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/field"
)

// Set once, before the first test.
var (
	api       client.Client
	namespace string
)

func TestCLI(t *testing.T) {
	field.Require(t, "make integration")
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "kubectl swarm")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	api = field.Connect().API
	field.InstallCRDs(ctx)
	namespace = newNamespace(ctx)
	furnish(ctx, namespace)
})

// newNamespace creates a namespace that is deleted when the spec ends.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "swarm-cli-"}}
	Expect(api.Create(ctx, made)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(api.Delete(ctx, made))).To(Succeed())
	})
	return made.Name
}

// answer is how the program ended, and its output.
type answer struct {
	code      int
	out, said string
}

// ask runs the program in the suite's namespace.
func ask(arguments ...string) answer {
	GinkgoHelper()
	return askIn(namespace, arguments...)
}

// askIn runs the program in a namespace.
func askIn(namespace string, arguments ...string) answer {
	GinkgoHelper()
	return end(exec.Command(field.FromRoot("bin", "kubectl-swarm"), append(arguments, "--namespace", namespace)...))
}

// end runs a command to its end.
func end(command *exec.Cmd) answer {
	GinkgoHelper()
	session, err := gexec.Start(command, gbytes.NewBuffer(), gbytes.NewBuffer())
	Expect(err).NotTo(HaveOccurred(), "run `make build` first")
	Eventually(session).Should(gexec.Exit())
	return answer{session.ExitCode(), string(session.Out.Contents()), string(session.Err.Contents())}
}

// says is the program's output when it succeeds.
func says(line string) string {
	GinkgoHelper()
	got := ask(strings.Fields(line)...)
	Expect(got.code).To(Equal(0), got.said)
	Expect(got.said).To(BeEmpty())
	return got.out
}

// row matches a line of a table by its words.
func row(words string) string {
	return `(?m)^` + strings.ReplaceAll(words, " ", ` +`) + ` *$`
}
