package run

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"

	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// makeTimeout is how long a target of the Makefile may take: it builds all programs before it does anything. A target that fails is
// noticed at once.
const makeTimeout = 10 * time.Minute

// A runner is a `make run` process.
type runner struct {
	*gexec.Session
	health string // port
}

// startRun executes `make run` and waits until admission is registered. Ports are free ones, because suites share the machine, and periods
// are shorter than the defaults.
func startRun(ctx context.Context) *runner {
	GinkgoHelper()
	r := &runner{health: ports.Free()}
	r.Session = start(
		"run",
		"SWARM_HEALTH_PORT="+r.health, "SWARM_METRICS_PORT="+ports.Free(), "SWARM_API_PORT="+ports.Free(),
		"SWARM_LINK_PORT="+ports.Free(), "SWARM_WEBHOOK_PORT="+ports.Free(),
		"SWARM_SPREAD_COOLDOWN=1s",
		"SWARM_CONTROLLER_LEADER_ELECTION_ENABLED=false", // do not wait for the Lease of a process that was killed
	)
	DeferCleanup(r.stop)
	Eventually(r.Err).WithContext(ctx).WithTimeout(makeTimeout).Should(gbytes.Say("registered admission"))
	return r
}

// start runs a target of the Makefile as a user does: without the variables of the make that runs this suite.
func start(target string, environment ...string) *gexec.Session {
	GinkgoHelper()
	command := exec.Command("make", target, "KUBECONFIG="+os.Getenv("KUBECONFIG"))
	command.Dir = testcluster.FromRoot()
	command.Env = append(slices.DeleteFunc(os.Environ(), isMake), environment...)
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	return session
}

func isMake(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains([]string{"MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS"}, name)
}

// stop ends the process if it still runs.
func (r *runner) stop() { r.Terminate().Wait(20 * time.Second) }

// kill ends the operator, and so make, without giving it a chance to clean up.
func (r *runner) kill() {
	GinkgoHelper()
	children := r.children()
	Expect(children).To(HaveLen(1))
	Expect(syscall.Kill(children[0], syscall.SIGKILL)).To(Succeed())
	Eventually(r.Session).Should(gexec.Exit())
}

// children are the processes that make has started.
func (r *runner) children() (pids []int) {
	GinkgoHelper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", r.Command.Process.Pid))
	Expect(err).NotTo(HaveOccurred())
	for word := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(word)
		Expect(err).NotTo(HaveOccurred())
		pids = append(pids, pid)
	}
	return pids
}

// readyStatus is the status code of a readiness check.
func (r *runner) readyStatus(ctx context.Context, check string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+r.health+"/readyz/"+check, nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// executable is the program of a process.
func executable(pid int) (string, error) { return os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)) }
