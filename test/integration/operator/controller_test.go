package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

// A status change alone triggers no reconcile, so a status that another writer has changed is corrected only by the resync.
func showResync(ctx SpecContext) {
	const period = 5 * time.Second
	ns := namespace(ctx, nil)
	often := startOperator(onlyNamespace(ns), "SWARM_CONTROLLER_RESYNC_PERIOD=5s", "SWARM_LOGGING_LEVEL=debug")
	swarm := sample(ctx, ns)
	Eventually(condition).WithContext(ctx).WithArguments(swarm).Should(ContainSubstring("6 have a ready pod"))
	// Until its pods have settled, something else may be the reason: then once more.
	Eventually(func() time.Duration { return waitSince(often, expectDriftRepaired(ctx, swarm, period)) }).WithTimeout(2 * time.Minute).
		Should(BeNumerically(">=", period*9/10))
	Expect(resyncs(often)).To(And(Not(BeEmpty()), HaveEach(And(BeNumerically(">=", period*9/10), BeNumerically("<=", period)))))
	Eventually(often.Terminate()).Should(gexec.Exit(0))

	seldom := startOperator(onlyNamespace(ns), "SWARM_CONTROLLER_RESYNC_PERIOD=1h", "SWARM_LOGGING_LEVEL=debug")
	Eventually(resyncs).WithArguments(seldom).Should(And(Not(BeEmpty()),
		HaveEach(And(BeNumerically(">=", 54*time.Minute), BeNumerically("<=", time.Hour)))))
}

// expectDriftRepaired changes the status of a swarm by hand, sees it changed back, and returns when it began. The log says that it is
// looked at after the period.
func expectDriftRepaired(ctx context.Context, swarm *v1alpha1.Swarm, period time.Duration) time.Time {
	GinkgoHelper()
	began := time.Now()
	Expect(api.Status().Patch(ctx, swarm, client.RawPatch(types.MergePatchType, []byte(`{"status":{"selector":"drifted"}}`)))).To(Succeed())
	Eventually(func(ctx context.Context) (string, error) {
		err := api.Get(ctx, client.ObjectKeyFromObject(swarm), swarm)
		return swarm.Status.Selector, err
	}).WithContext(ctx).ShouldNot(Equal("drifted"))
	took := fmt.Sprintf("%.1f s with a period of %s", time.Since(began).Seconds(), period)
	AddReportEntry("drift without an event was repaired after", ReportEntryVisibilityAlways, took)
	return began
}

// A reconcileEntry is a reconcile of a Swarm that was done, and how long after it the next one was to be.
type reconcileEntry struct {
	at    time.Time
	after time.Duration
}

// reconcileEntries need no sorting out by object: these operators have one Swarm.
func reconcileEntries(session *gexec.Session) []reconcileEntry {
	var result []reconcileEntry
	for _, line := range logEntries(session) {
		if line["controller"] != "swarm" || line["outcome"] != "done" {
			continue
		}
		at, wrong := time.Parse(time.RFC3339Nano, fmt.Sprint(line["time"]))
		after, strange := time.ParseDuration(fmt.Sprint(line["after"]))
		Expect(errors.Join(wrong, strange)).NotTo(HaveOccurred())
		result = append(result, reconcileEntry{at, after})
	}
	return result
}

func resyncs(session *gexec.Session) []time.Duration {
	var all []time.Duration
	for _, one := range reconcileEntries(session) {
		all = append(all, one.after)
	}
	return all
}

// waitSince is how long the first look after that moment had to be waited for, since the one before.
func waitSince(session *gexec.Session, moment time.Time) time.Duration {
	entries := reconcileEntries(session)
	next := slices.IndexFunc(entries, func(one reconcileEntry) bool { return one.at.After(moment) })
	if next < 1 {
		return 0
	}
	return entries[next].at.Sub(entries[next-1].at)
}

// With few requests in a second reconciles take long, so that they pile up.
func showWorkers(ctx SpecContext) {
	for workers, setting := range map[int]string{5: "", 2: "SWARM_CONTROLLER_WORKERS=2"} {
		ns, port := namespace(ctx, nil), ports.Free()
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			createSampleNamed(ctx, ns, name)
			createPool(ctx, ns, name)
			createSpread(ctx, ns, name)
		}
		session := startOperator(onlyNamespace(ns), setting, "SWARM_CLIENT_QPS=3", "SWARM_CLIENT_BURST=3", "SWARM_METRICS_ENABLED=true",
			"SWARM_METRICS_SECURE=false", "SWARM_METRICS_PORT="+port)
		peaks := newMaxActive("swarm", "workerpool", "spread-deployment")
		Eventually(peaks.sample).WithContext(ctx).WithArguments(port).Should(HaveEach(BeEquivalentTo(workers)))
		Consistently(peaks.sample).WithContext(ctx).WithArguments(port).WithTimeout(time.Second).Should(HaveEach(BeEquivalentTo(workers)))
		for _, controller := range []string{"swarm", "agent", "task", "workerpool", "spread-deployment", "spread-statefulset"} {
			Expect(series(ctx, port, "controller_runtime_max_concurrent_reconciles", `controller="`+controller+`"`)).To(BeEquivalentTo(workers),
				controller)
		}
		Eventually(session.Terminate()).Should(gexec.Exit(0))
	}
}

// maxActive are the most objects that controllers were seen to reconcile at once.
type maxActive map[string]float64

func newMaxActive(controllers ...string) maxActive {
	made := maxActive{}
	for _, controller := range controllers {
		made[controller] = 0
	}
	return made
}

// sample reads the metrics once more, and returns the peaks so far.
func (p maxActive) sample(ctx context.Context, port string) (maxActive, error) {
	for controller := range p {
		active, err := series(ctx, port, "controller_runtime_active_workers", `controller="`+controller+`"`)
		if err != nil {
			return p, err
		}
		p[controller] = max(p[controller], active)
	}
	return p, nil
}

// createPool makes a pool whose status has to be written: its workload does not exist.
func createPool(ctx context.Context, ns, name string) *v1alpha1.WorkerPool {
	GinkgoHelper()
	object := &v1alpha1.WorkerPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       v1alpha1.WorkerPoolSpec{Workers: v1alpha1.WorkloadReference{Kind: v1alpha1.WorkloadStatefulSet, Name: name}},
	}
	Expect(api.Create(ctx, object)).To(Succeed())
	return object
}

// createSpread makes a workload that has to be annotated with how it is spread.
func createSpread(ctx context.Context, ns, name string) {
	GinkgoHelper()
	made := spreadEnvironment{namespace: ns, prefix: v1alpha1.Prefix}.workload(name, "50")
	made.Spec.Replicas = new(int32(0))
	Expect(api.Create(ctx, made)).To(Succeed())
}

// leaseHolder is the holder of the Lease in a namespace.
func leaseHolder(ctx context.Context, ns string) (string, error) {
	lease, err := leaseIn(ctx, ns)
	return holderOf(lease), err
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func leaseIn(ctx context.Context, ns string) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	return lease, client.IgnoreNotFound(api.Get(ctx, client.ObjectKey{Namespace: ns, Name: "swarm-operator"}, lease))
}

func showForced(ctx SpecContext) {
	ns := namespace(ctx, nil)
	settings := []string{onlyNamespace(ns), "SWARM_CONTROLLER_LEADER_ELECTION_NAMESPACE=" + ns,
		"SWARM_CONTROLLER_LEADER_ELECTION_LEASE_DURATION=6s"}
	first := startOperator(settings...)
	Eventually(first.Err).Should(gbytes.Say("Successfully acquired lease"))
	former, err := leaseHolder(ctx, ns)
	Expect(err).NotTo(HaveOccurred())
	startOperator(append(settings, "SWARM_CONTROLLER_LEADER_ELECTION_ENABLED=false", "SWARM_HEALTH_PORT="+ports.Free(),
		"SWARM_LINK_PORT="+ports.Free())...)
	Eventually(leaseHolder).WithContext(ctx).WithArguments(ns).Should(And(Not(BeEmpty()), Not(Equal(former))))
	Eventually(first).Should(gexec.Exit(1))
	// Not the very last line: what was in progress when it ended may still log.
	Expect(logEntries(first)).To(ContainElement(And(HaveKeyWithValue("level", "ERROR"), HaveKeyWithValue("msg", "ended"), HaveKey("err"))))
}

func showLeaseNamespace(ctx SpecContext) {
	ns := namespace(ctx, nil)
	startOperator(onlyNamespace(ns), "SWARM_CONTROLLER_LEADER_ELECTION_NAMESPACE="+ns)
	Eventually(leaseHolder).WithContext(ctx).WithArguments(ns).ShouldNot(BeEmpty())
	here, err := leaseHolder(ctx, ns)
	Expect(err).NotTo(HaveOccurred())
	Expect(leaseHolder(ctx, system)).NotTo(Equal(here))
}

// With the default of 12 s, its successor would lead sooner.
func showLeaseDuration(ctx SpecContext) {
	const duration = 15 * time.Second
	ns := namespace(ctx, nil)
	settings := []string{
		onlyNamespace(ns), "SWARM_CONTROLLER_LEADER_ELECTION_NAMESPACE=" + ns,
		"SWARM_CONTROLLER_LEADER_ELECTION_LEASE_DURATION=" + duration.String(),
	}
	first := startOperator(settings...)
	Eventually(first.Err).Should(gbytes.Say("Successfully acquired lease"))
	next := startOperator(append(settings, "SWARM_HEALTH_PORT="+ports.Free(), "SWARM_LINK_PORT="+ports.Free())...)
	Eventually(next.Err).Should(gbytes.Say("caches synced"))
	Eventually(first.Kill()).Should(gexec.Exit())
	former, err := leaseIn(ctx, ns)
	Expect(err).NotTo(HaveOccurred())
	Expect(former.Spec.LeaseDurationSeconds).To(HaveValue(BeEquivalentTo(duration.Seconds())))
	Eventually(next.Err).Should(gbytes.Say("Successfully acquired lease"))
	lease, err := leaseIn(ctx, ns)
	Expect(err).NotTo(HaveOccurred())
	waited := lease.Spec.AcquireTime.Sub(former.Spec.RenewTime.Time)
	took := fmt.Sprintf("%.1f s with a lease of %s", waited.Seconds(), duration)
	AddReportEntry("a killed leader is followed after", ReportEntryVisibilityAlways, took)
	Expect(waited).To(BeNumerically(">=", duration))
}

var _ = It("takes over the Lease of a killed process of its own pod, and of no other, before it expires", func(ctx SpecContext) {
	ns, directory := namespace(ctx, nil), "POD_LOCK_DIR="+GinkgoT().TempDir()
	start := func(environment ...string) *gexec.Session {
		return startOperator(append(environment, onlyNamespace(ns), "SWARM_CONTROLLER_LEADER_ELECTION_NAMESPACE="+ns,
			"SWARM_CONTROLLER_LEADER_ELECTION_LEASE_DURATION=5m",
			"SWARM_LINK_AGENT_LEASE=10m", "SWARM_HEALTH_PORT="+ports.Free(), "SWARM_LINK_PORT="+ports.Free())...)
	}
	// A Lease that is missing looks like one that was deleted, whose holder may still act: that is not passed on.
	Expect(api.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "swarm-operator"}})).To(Succeed())
	former := start(directory)
	Eventually(former.Err).Should(gbytes.Say("Successfully acquired lease"))
	taken, err := leaseIn(ctx, ns)
	Expect(err).NotTo(HaveOccurred())
	beside, elsewhere := start(directory), start()
	for _, waiting := range []*gexec.Session{beside, elsewhere} {
		Eventually(waiting.Err).Should(gbytes.Say("Attempting to acquire leader lease"))
	}
	Eventually(former.Kill()).Should(gexec.Exit())
	Eventually(start(directory).Err).Should(gbytes.Say("Successfully acquired lease"))
	Expect(beside.Err).NotTo(gbytes.Say("Successfully acquired lease"), "it was started while the leader lived")
	Expect(elsewhere.Err).NotTo(gbytes.Say("Successfully acquired lease"), "it cannot know that the leader has ended")
	lease, err := leaseIn(ctx, ns)
	Expect(err).NotTo(HaveOccurred())
	Expect(*lease.Spec.LeaseTransitions).To(BeNumerically(">", *taken.Spec.LeaseTransitions), "every process has a term of its own")
})
