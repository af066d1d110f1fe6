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
)

// A view is a pool at rest.
type view struct {
	file
	uids  map[string]types.UID // of its pods, by name
	told  map[string]string    // the versions that pods were nudged with
	slots map[string]string    // of the pods of a Deployment
	lines int                  // in the journal until then
}

// settled waits until this many workers have this many jobs, and have confirmed it themselves: published, acknowledged, reported, and
// running.
func settled(ctx context.Context, pool *v1alpha1.WorkerPool, workers, jobs int) view {
	GinkgoHelper()
	var seen view
	Eventually(func(g Gomega) {
		g.Expect(api.Get(ctx, client.ObjectKeyFromObject(pool), pool)).To(Succeed())
		g.Expect(pool.Status.ObservedGeneration).To(Equal(pool.Generation))
		g.Expect([]int32{pool.Status.ExpectedSize, pool.Status.Size, pool.Status.Jobs}).To(HaveExactElements(int32(workers), int32(workers), int32(jobs)))
		g.Expect(meta.IsStatusConditionTrue(pool.Status.Conditions, v1alpha1.ConditionConverged)).To(BeTrue(), "%v", pool.Status.Conditions)
		seen = look(ctx, g, pool)
		g.Expect(seen.Version).To(Equal(pool.Status.Version))
		g.Expect(seen.uids).To(HaveLen(workers), "pods")
		running := proveRunning(ctx, g, pool, seen)
		if workers > 0 {
			g.Expect(running).To(Equal(jobs-len(pool.Status.Unassigned)), "jobs that run")
		}
	}).WithContext(ctx).Should(Succeed())
	seen.lines = len(scene.journal(ctx))
	return seen
}

// look is what there is now.
func look(ctx context.Context, g Gomega, pool *v1alpha1.WorkerPool) view {
	config := &corev1.ConfigMap{}
	g.Expect(api.Get(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: pool.ConfigName()}, config)).To(Succeed())
	seen := view{file: parsed(config), uids: map[string]types.UID{}, told: map[string]string{}, slots: map[string]string{}}
	pods, err := scene.pods(ctx, pool.Spec.Workers.Name)
	g.Expect(err).NotTo(HaveOccurred())
	for name, pod := range pods {
		seen.uids[name], seen.told[name], seen.slots[name] = pod.UID, pod.Annotations[v1alpha1.AnnotationConfigVersion], pod.Labels[v1alpha1.LabelSlot]
	}
	return seen
}

// proveRunning checks that exactly what is published runs, and where it should, by the word of the workers. It counts the jobs.
func proveRunning(ctx context.Context, g Gomega, pool *v1alpha1.WorkerPool, seen view) int {
	running, err := scene.running(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	count := 0
	for worker, work := range seen.Workloads {
		if seen.uids[worker] == "" {
			g.Expect(work.Jobs).To(BeEmpty(), "no pod is %s", worker)
			continue
		}
		said, err := scene.ask(ctx, worker)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(said).To(Equal(answer{worker, string(seen.uids[worker]), work.Version, said.Config}))
		for _, job := range work.Jobs {
			g.Expect(running[job].PodUID).To(BeEquivalentTo(seen.uids[worker]), "%s runs on %s", job, worker)
		}
		count += len(work.Jobs)
	}
	mine := 0
	for _, holder := range running {
		if seen.uids[holder.Worker] != "" {
			mine++
		}
	}
	g.Expect(mine).To(Equal(count), "nothing else runs on workers of %s", pool.Name)
	return count
}

// proveUntouched checks what a change has left alone: jobs that did not move were never stopped, and workers with the same list
// still have their pod, their version and their annotation. It counts the workers whose list is another.
func proveUntouched(ctx context.Context, before, after view) (changed int) {
	GinkgoHelper()
	stopped := stops(scene.journal(ctx)[before.lines:after.lines])
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
		Expect(after.told[worker]).To(Equal(before.told[worker]), "the annotation of %s", worker)
	}
	return changed
}

// moved counts the jobs that have changed hands.
func moved(before, after view) (count int) {
	owners := after.owners()
	for job, owner := range before.owners() {
		if owners[job] != owner {
			count++
		}
	}
	return count
}

// deliveries are how long it took from the publication of lists until workers that were there already had acknowledged them.
func deliveries(ctx context.Context, config string) []time.Duration {
	GinkgoHelper()
	lines := scene.journal(ctx)
	var all []time.Duration
	for _, edition := range scene.seen.published(config) {
		for worker, work := range edition.Workloads {
			if work.Version != edition.Version {
				continue
			}
			at := slices.IndexFunc(lines, func(said line) bool {
				return said.Event == "acknowledge" && said.Worker == worker && said.Version == work.Version
			})
			if at >= 0 && scene.seen.granted(line{PodUID: lines[at].PodUID}, -1) < edition.number {
				all = append(all, max(0, lines[at].Time.Sub(edition.at)))
			}
		}
	}
	slices.Sort(all)
	return all
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
	Eventually(func() error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object)
		return api.Update(ctx, object)
	}).WithContext(ctx).Should(Succeed())
}
