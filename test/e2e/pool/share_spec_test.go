package pool

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

func jobList(name string) string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

func streams() []string { return strings.Fields(jobList("pool-27-jobs.txt")) }

func scaleTo(ctx context.Context, workload string, replicas string) {
	GinkgoHelper()
	Expect(kubectl(ctx, "scale", "--namespace", env.namespace, workload, "--replicas="+replicas)).To(ContainSubstring("scaled"))
}

var _ = Describe("A pool of streams", func() {
	It("shares 27 jobs out over 2 workers as a person would, for all to see [P03/golden, P05/content, P05/mounted, P10/sizes, P10/version, P10/members, P12, P16/assignments, P16/versions]", func(ctx SpecContext) {
		pool := poolOf("swarm-worker", streams()...)
		create(ctx, statefulSet("swarm-worker", 2, idleContainer()), pool)
		Expect(awaitSettled(ctx, pool, 2, 27).text).To(Equal(jobList("pool-27-expected.yml")))

		described, err := kubectl(ctx, "describe", "--namespace", env.namespace, "cm", "swarm-worker-config")
		Expect(err).NotTo(HaveOccurred())
		Expect(described).To(ContainSubstring(jobList("pool-27-expected.yml")))
		for _, name := range []string{"swarm-worker-0", "swarm-worker-1"} {
			Expect(kubectl(ctx, "exec", "--namespace", env.namespace, name, "--", "cat", "/app/config/config.yml")).
				To(Equal(jobList("pool-27-expected.yml")))
		}

		shown, err := kubectl(ctx, "get", "--namespace", env.namespace, "workerpools")
		Expect(err).NotTo(HaveOccurred())
		rows := strings.Split(shown, "\n")
		Expect(strings.Fields(rows[0])).To(HaveExactElements("NAME", "WORKERS", "SIZE", "EXPECTED", "JOBS", "VERSION", "CONVERGED", "READY",
			"REASON", "AGE"))
		Expect(strings.Fields(rows[1])[:9]).To(HaveExactElements("swarm-worker", "swarm-worker", "2", "2", "27", "1", "True", "True",
			"Available"))
		Expect(pool.Status.Phase).To(Equal(v1alpha1.PoolConverged))
		Expect(pool.Status.Workers).To(HaveExactElements(
			v1alpha1.WorkerStatus{Name: "swarm-worker-0", Jobs: 14, Revision: 1, Acknowledged: v1alpha1.AckReceived, State: v1alpha1.WorkerReady},
			v1alpha1.WorkerStatus{Name: "swarm-worker-1", Jobs: 13, Revision: 1, Acknowledged: v1alpha1.AckReceived, State: v1alpha1.WorkerReady}))
		file, err := codec.ParseFile(jobList("pool-27-expected.yml"))
		Expect(err).NotTo(HaveOccurred())
		Expect(introspect(ctx, pool.Name)).To(Equal(introspection{Version: 1, Workers: []introspectedWorker{
			{Name: "swarm-worker-0", Jobs: file.Workers[0].Jobs, Version: 1, Acknowledged: string(v1alpha1.AckReceived)},
			{Name: "swarm-worker-1", Jobs: file.Workers[1].Jobs, Version: 1, Acknowledged: string(v1alpha1.AckReceived)},
		}}))
		env.expectSingleOwners(ctx)
	})

	It("follows a StatefulSet that is scaled 2, 3, 1, 0, 12, and no job ever has two workers [P09/to-three, P09/to-one, P09/to-zero, P09/to-twelve, P21]", func(ctx SpecContext) {
		pool := poolOf("swarm-worker", streams()...)
		create(ctx, statefulSet("swarm-worker", 2, idleContainer()), pool)
		two := awaitSettled(ctx, pool, 2, 27)
		stop := keepAsking(ctx, "swarm-worker")

		scaleTo(ctx, "sts/swarm-worker", "3")
		three := awaitSettled(ctx, pool, 3, 27)
		Expect(countMoved(two, three)).To(Equal(9), "the fewest there can be")
		Expect(expectUntouched(ctx, two, three)).To(Equal(2))

		scaleTo(ctx, "sts/swarm-worker", "1")
		one := awaitSettled(ctx, pool, 1, 27)
		Expect(countMoved(three, one)).To(Equal(18))
		Expect(expectUntouched(ctx, three, one)).To(Equal(3))

		scaleTo(ctx, "sts/swarm-worker", "0")
		none := awaitSettled(ctx, pool, 0, 27)
		Expect(none.owners()).To(BeEmpty())
		Expect(pool.Status.Conditions).To(ContainElement(SatisfyAll(HaveField("Type", v1alpha1.ConditionReady),
			HaveField("Reason", string(v1alpha1.ReasonNoWorkers)))))

		scaleTo(ctx, "sts/swarm-worker", "12")
		twelve := awaitSettled(ctx, pool, 12, 27)
		for worker, work := range twelve.Workloads {
			Expect(len(work.Jobs)).To(BeElementOf(2, 3), worker)
		}
		stop(ctx)
		env.expectSingleOwners(ctx)
		AddReportEntry("with a nudge lists were acknowledged after", ReportEntryVisibilityAlways,
			summary(deliveryTimes(ctx, "swarm-worker-config")))
	})

	It("touches only the workers whose list changes [P01, P11/plus-one-per-change, P11/unchanged-otherwise]", func(ctx SpecContext) {
		pool := poolOf("few", numberedNames("job", 9)...)
		create(ctx, statefulSet("few", 3, idleContainer()), pool)
		before := awaitSettled(ctx, pool, 3, 9)
		edit(ctx, pool, func(p *v1alpha1.WorkerPool) { p.Spec.Jobs = append(p.Spec.Jobs, v1alpha1.Job{Name: "another"}) })
		more := awaitSettled(ctx, pool, 3, 10)
		Expect(expectUntouched(ctx, before, more)).To(Equal(1))
		Expect(more.Version).To(Equal(before.Version+1), "no worker had to give up a job")

		edit(ctx, pool, func(p *v1alpha1.WorkerPool) { p.Spec.Jobs = p.Spec.Jobs[:9] })
		less := awaitSettled(ctx, pool, 3, 9)
		Expect(expectUntouched(ctx, more, less)).To(Equal(1))
		Expect(less.Version).To(Equal(more.Version + 1))
		edit(ctx, pool, func(p *v1alpha1.WorkerPool) { p.Spec.RevisionHistoryLimit = 5 })
		Expect(awaitSettled(ctx, pool, 3, 9).text).To(Equal(less.text), "no change, no version")
		env.expectSingleOwners(ctx)
	})
})

// keepAsking queries the workers of a StatefulSet repeatedly for what they have loaded, until it is stopped. The answers must match the
// journals, and versions must never decrease.
func keepAsking(ctx context.Context, workload string) (stop func(context.Context)) {
	askCtx, end := context.WithCancel(ctx)
	var group sync.WaitGroup
	var answers []workerStatus
	group.Go(func() {
		for askCtx.Err() == nil {
			answers = append(answers, round(askCtx, workload)...)
		}
	})
	return func(ctx context.Context) {
		GinkgoHelper()
		end()
		group.Wait()
		expectHonest(answers, env.journal(ctx))
		AddReportEntry("answers of workers that were compared with their journals", ReportEntryVisibilityAlways, len(answers))
	}
}

// round queries all existing workers at once. Workers that cannot answer are queried in the next round.
func round(ctx context.Context, workload string) []workerStatus {
	ctx, stop := context.WithTimeout(ctx, quietPeriod)
	defer stop()
	pods, _ := env.pods(ctx, workload)
	results := make(chan *workerStatus, len(pods))
	for name := range pods {
		go func() {
			status, err := env.fetchStatus(ctx, name)
			if err != nil {
				results <- nil
				return
			}
			results <- &status
		}()
	}
	var answers []workerStatus
	for range pods {
		if status := <-results; status != nil {
			answers = append(answers, *status)
		}
	}
	return answers
}

func expectHonest(answers []workerStatus, lines []journalEntry) {
	GinkgoHelper()
	type loaded struct {
		uid     string
		version int64
	}
	loadedVersions, latest := map[loaded]bool{}, map[string]int64{}
	for _, entry := range lines {
		loadedVersions[loaded{entry.PodUID, entry.Version}] = entry.Event == "acknowledge" || loadedVersions[loaded{entry.PodUID, entry.Version}]
	}
	for _, entry := range answers {
		Expect(entry.Version == 0 || loadedVersions[loaded{entry.PodUID, entry.Version}]).To(BeTrue(), "%v is not in the journal", entry)
		Expect(entry.Version).To(BeNumerically(">=", latest[entry.PodUID]), "%v goes back", entry)
		latest[entry.PodUID] = entry.Version
	}
}

func statefulSetNamed(name string) *appsv1.StatefulSet { return statefulSet(name, 0, idleContainer()) }
