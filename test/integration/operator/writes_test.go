package operator

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/audit"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

var _ = Describe("The operator", Serial, func() {
	It("writes once for a short task, twice for a longer one, and nothing for a swarm at rest", func(ctx SpecContext) {
		const size = 2
		ns := namespace(ctx, nil)
		if _, err := audit.Requests(ns); err != nil {
			Skip(err.Error())
		}
		userAgent := "writes-" + ns
		rename := func(request *http.Request) int {
			request.Header.Set("User-Agent", userAgent)
			return 0
		}
		work := runAgents(ctx, ns)
		session := startOperator(proxyKubeconfigSetting(ctx, rename), onlyNamespace(ns), linkAddress, "SWARM_CONTROLLER_RESYNC_PERIOD=5s",
			"SWARM_LOGGING_LEVEL=debug")
		swarm := newTeam(ns, "ants", size)
		Expect(api.Create(ctx, swarm)).To(Succeed())
		testcluster.MustKubectl(ctx, "wait", "--namespace", ns, "swarm/ants", "--for=condition=Ready", "--timeout=60s")

		submit(ctx, swarm, "long", taskOrder{Hold: true})
		Eventually(phaseOf(ns, "long")).WithContext(ctx).Should(Equal(v1alpha1.TaskRunning))
		work.release("long")
		Eventually(phaseOf(ns, "long")).WithContext(ctx).Should(Equal(v1alpha1.TaskCompleted))
		Eventually(writesAbout).WithArguments(userAgent, "long").Should(HaveLen(2), "that it runs, and that it has finished")
		expectOneWrite(ctx, userAgent, session, swarm, work)
		expectQuiet(ctx, userAgent, session, size)
		Expect(writesAbout(userAgent, "long")).To(HaveLen(2), "and nothing later")
	})
})

// expectOneWrite submits short tasks until one costs a single write, although the operator has looked at it while it ran. On a busy machine
// that may take more than a second: then the task is not a short one, and the next one is tried.
func expectOneWrite(ctx context.Context, userAgent string, session *gexec.Session, swarm *v1alpha1.Swarm, work *agentHandler) {
	GinkgoHelper()
	submitted := 0
	Eventually(func(g Gomega) {
		submitted++
		task := submit(ctx, swarm, fmt.Sprint("short-", submitted), taskOrder{Hold: true})
		g.Eventually(work.hasStarted).WithArguments(task.Name).Should(BeTrue())
		asked := time.Now()
		annotation := []byte(`{"metadata":{"annotations":{"swarm.io/reconcile-at":"now"}}}`)
		g.Expect(api.Patch(ctx, task, client.RawPatch(types.MergePatchType, annotation))).To(Succeed())
		g.Eventually(reconciledTask).WithArguments(session, task.Name, asked).Should(BeTrue())
		work.release(task.Name)
		g.Eventually(phaseOf(task.Namespace, task.Name)).WithContext(ctx).Should(Equal(v1alpha1.TaskCompleted))
		g.Eventually(writesAbout).WithArguments(userAgent, task.Name).ShouldNot(BeEmpty())
		g.Consistently(writesAbout).WithArguments(userAgent, task.Name).WithTimeout(time.Second).Should(HaveLen(1), "that it has finished")
	}).WithContext(ctx).Should(Succeed())
}

// reconciledTask reports whether a task was reconciled after that moment, by a log at debug.
func reconciledTask(session *gexec.Session, name string, moment time.Time) bool {
	GinkgoHelper()
	return slices.ContainsFunc(logEntries(session), func(line map[string]any) bool {
		at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(line["time"]))
		return err == nil && at.After(moment) && line["controller"] == "task" && line["msg"] == "reconciled" && line["name"] == name
	})
}

// expectQuiet waits until three periodic reconciles of a swarm and of each of its agents have passed without a write. The numbers of
// finished tasks are written up to ten seconds late.
func expectQuiet(ctx context.Context, userAgent string, session *gexec.Session, agents int) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		written := writeRequests(userAgent)
		last := written[len(written)-1]
		for controller, least := range map[string]int{"swarm": 3, "agent": 3 * agents} {
			since := slices.DeleteFunc(reconcileTimes(session, controller), last.Answered.After)
			g.Expect(len(since)).To(BeNumerically(">=", least), "reconciles of controller %s since %s", controller, last)
		}
	}).WithContext(ctx).Should(Succeed())
}

// writesAbout returns the writes of a client to the task of this name, and to events about it.
func writesAbout(userAgent, task string) []audit.Request {
	GinkgoHelper()
	return slices.DeleteFunc(writeRequests(userAgent), func(one audit.Request) bool {
		return one.Object.Name != task && !strings.HasPrefix(one.Object.Name, task+".")
	})
}
