package pool

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// A poolSnapshot is the state of a converged pool.
type poolSnapshot struct {
	file
	uids                 map[string]types.UID // of its pods, by name
	acknowledgedVersions map[string]string    // the versions that pods were nudged with
	slots                map[string]string    // of the pods of a Deployment
	lines                int                  // in the journal until then
}

// awaitSettled waits until this many workers have this many jobs, and have confirmed it themselves: published, acknowledged, reported, and
// running.
func awaitSettled(ctx context.Context, pool *v1alpha1.WorkerPool, workers, jobs int) poolSnapshot {
	GinkgoHelper()
	var snapshot poolSnapshot
	Eventually(func(g Gomega) {
		g.Expect(api.Get(ctx, client.ObjectKeyFromObject(pool), pool)).To(Succeed())
		g.Expect(pool.Status.ObservedGeneration).To(Equal(pool.Generation))
		g.Expect([]int32{pool.Status.ExpectedSize, pool.Status.Size, pool.Status.Jobs}).To(HaveExactElements(int32(workers), int32(workers),
			int32(jobs)))
		g.Expect(meta.IsStatusConditionTrue(pool.Status.Conditions, v1alpha1.ConditionConverged)).To(BeTrue(), "%v", pool.Status.Conditions)
		snapshot = takeSnapshot(ctx, g, pool)
		g.Expect(snapshot.Version).To(Equal(pool.Status.Version))
		g.Expect(snapshot.uids).To(HaveLen(workers), "pods")
		running := expectRunning(ctx, g, pool, snapshot)
		if workers > 0 {
			g.Expect(running).To(Equal(jobs-len(pool.Status.Unassigned)), "jobs that run")
		}
	}).WithContext(ctx).Should(Succeed())
	snapshot.lines = len(env.journal(ctx))
	return snapshot
}

// takeSnapshot returns the current state.
func takeSnapshot(ctx context.Context, g Gomega, pool *v1alpha1.WorkerPool) poolSnapshot {
	config := &corev1.ConfigMap{}
	g.Expect(api.Get(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: pool.ConfigName()}, config)).To(Succeed())
	snapshot := poolSnapshot{file: parseConfig(config), uids: map[string]types.UID{}, acknowledgedVersions: map[string]string{},
		slots: map[string]string{}}
	pods, err := env.pods(ctx, pool.Spec.Workers.Name)
	g.Expect(err).NotTo(HaveOccurred())
	for name, pod := range pods {
		snapshot.uids[name], snapshot.acknowledgedVersions[name], snapshot.slots[name] = pod.UID,
			pod.Annotations[v1alpha1.AnnotationConfigVersion], pod.Labels[v1alpha1.LabelSlot]
	}
	return snapshot
}

// expectRunning checks with the workers that exactly the published jobs run, each on its worker. It counts the jobs.
func expectRunning(ctx context.Context, g Gomega, pool *v1alpha1.WorkerPool, snapshot poolSnapshot) int {
	running, err := env.running(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	count := 0
	for worker, work := range snapshot.Workloads {
		if snapshot.uids[worker] == "" {
			g.Expect(work.Jobs).To(BeEmpty(), "no pod is %s", worker)
			continue
		}
		said, err := env.fetchStatus(ctx, worker)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(said).To(Equal(workerStatus{worker, string(snapshot.uids[worker]), work.Version, said.Config}))
		for _, job := range work.Jobs {
			g.Expect(running[job].PodUID).To(BeEquivalentTo(snapshot.uids[worker]), "%s runs on %s", job, worker)
		}
		count += len(work.Jobs)
	}
	own := 0
	for _, holder := range running {
		if snapshot.uids[holder.Worker] != "" {
			own++
		}
	}
	g.Expect(own).To(Equal(count), "nothing else runs on workers of %s", pool.Name)
	return count
}

// expectUntouched checks what a change has left alone: jobs that did not move were never stopped, and workers with the same list
// still have their pod, their version and their annotation. It counts the workers whose list is another.
func expectUntouched(ctx context.Context, before, after poolSnapshot) (changed int) {
	GinkgoHelper()
	stopped := stops(env.journal(ctx)[before.lines:after.lines])
	owners := after.owners()
	for job, owner := range before.owners() {
		if owners[job] == owner && before.uids[owner] == after.uids[owner] {
			Expect(stopped[job]).NotTo(ContainElement(string(after.uids[owner])), "%s need not move", job)
		}
	}
	for worker, work := range before.Workloads {
		if !slices.Equal(work.Jobs, after.Workloads[worker].Jobs) {
			changed++
			continue
		}
		Expect(after.uids[worker]).To(Equal(before.uids[worker]), "the pod of %s", worker)
		Expect(after.Workloads[worker].Version).To(Equal(work.Version), "the version of %s", worker)
		Expect(after.acknowledgedVersions[worker]).To(Equal(before.acknowledgedVersions[worker]), "the annotation of %s", worker)
	}
	return changed
}

// countMoved counts the jobs that have moved to another worker.
func countMoved(before, after poolSnapshot) (count int) {
	owners := after.owners()
	for job, owner := range before.owners() {
		if owners[job] != owner {
			count++
		}
	}
	return count
}

// deliveryTimes are how long it took from the publication of lists until workers that were there already had acknowledged them.
func deliveryTimes(ctx context.Context, config string) []time.Duration {
	GinkgoHelper()
	lines := env.journal(ctx)
	var times []time.Duration
	for _, version := range env.recorder.versionsOf(config) {
		for worker, work := range version.Workloads {
			if work.Version != version.Version {
				continue
			}
			at := slices.IndexFunc(lines, func(said journalEntry) bool {
				return said.Event == "acknowledge" && said.Worker == worker && said.Version == work.Version
			})
			if at >= 0 && env.recorder.grantedAt(journalEntry{PodUID: lines[at].PodUID}, -1) < version.number {
				times = append(times, max(0, lines[at].Time.Sub(version.at)))
			}
		}
	}
	slices.Sort(times)
	return times
}

func summary(all []time.Duration) string {
	if len(all) == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%.2f s (median of %d), at most %.2f s", all[len(all)/2].Seconds(), len(all), all[len(all)-1].Seconds())
}

// condition is one of a pool's, for Eventually.
func condition(ctx context.Context, pool *v1alpha1.WorkerPool, kind string) func(Gomega) metav1.Condition {
	return func(g Gomega) metav1.Condition {
		found := &v1alpha1.WorkerPool{}
		g.Expect(api.Get(ctx, client.ObjectKeyFromObject(pool), found)).To(Succeed())
		if condition := meta.FindStatusCondition(found.Status.Conditions, kind); condition != nil {
			return *condition
		}
		return metav1.Condition{}
	}
}

// edit changes an object, and retries on conflicts.
func edit[T client.Object](ctx context.Context, object T, change func(T)) {
	GinkgoHelper()
	testcluster.Update(ctx, api, object, change)
}
