package devcluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
)

// demoTimeout is enough to link every program again, with warm caches, on a busy machine.
const demoTimeout = 15 * time.Minute

// makeIn returns a call of make as from a shell, not from within another make: that would pass on its variables.
func (c cluster) makeIn(clone, target string) *exec.Cmd {
	command := exec.Command("make", target)
	command.Dir = clone
	for _, variable := range c.command().Env {
		if name, _, _ := strings.Cut(variable, "="); !strings.HasPrefix(name, "MAKE") && name != "MFLAGS" && name != "KUBECONFIG" {
			command.Env = append(command.Env, variable)
		}
	}
	return command
}

var _ = Describe("make demo", func() {
	It("[X13/demo] shows a swarm finishing tasks, from an empty clone, and takes it away again", func() {
		skipUnlessRoot("a real node")
		before := theMachine()
		clone := filepath.Join(testFolder, "clone")
		DeferCleanup(os.RemoveAll, clone)
		runSuccessfully(exec.Command("git", "clone", "--quiet", repositoryPath("", "."), clone))
		c := newCluster("demo")

		began := time.Now()
		session := start(c.makeIn(clone, "demo"))
		Eventually(session).WithTimeout(demoTimeout).Should(gexec.Exit(0))
		AddReportEntry("make demo from an empty clone", time.Since(began).Round(time.Second).String(), ReportEntryVisibilityAlways)
		Expect(string(session.Out.Contents())).To(MatchRegexp(`First task done after .*, all \d+ after `))
		phases := output(c.command("kubectl", "get", "tasks", "--namespace", "swarm-demo", "--output", "jsonpath={.items[*].status.phase}"))
		Expect(strings.Fields(string(phases))).To(And(Not(BeEmpty()), HaveEach("Completed")))

		runSuccessfully(c.makeIn(clone, "demo-down"))
		expectNoLeftovers(c, before)
	})
})
