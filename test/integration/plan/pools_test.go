package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"reflect"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

const (
	worldCount = 200
	worldSeed  = 12
	atATime    = 8
)

// prediction is the part of the output of `kubectl swarm plan pool -o json` that is compared.
type prediction struct {
	Workers []struct {
		Ordinal      int
		Gains, Loses []string
	}
	Unassigned []struct{ Job string }
}

// jobsByOrdinal are the jobs of each worker, sorted.
type jobsByOrdinal map[int][]string

var _ = It("[X12/pools] plans 200 pools as the operator does", func(ctx SpecContext) {
	worlds := generateWorlds(worldCount, worldSeed)
	forEach(worlds, func(w world) error { return createWorld(ctx, w) })
	awaitPods(ctx, worlds, func(w world) int32 { return w.replicas })
	stop := startOperator()
	awaitConverged(ctx, worlds)
	stop()

	forEach(worlds, func(w world) error { return changeWorld(ctx, w) })
	awaitPods(ctx, worlds, func(w world) int32 { return w.nextCount })
	predicted := make([]jobsByOrdinal, len(worlds))
	var differences []string
	moves := 0
	forEachIndex(worlds, func(n int, w world) (err error) {
		predicted[n], err = predict(ctx, w)
		return err
	})

	startOperator()
	awaitConverged(ctx, worlds)
	for n, w := range worlds {
		before, after := revisions(ctx, w)
		if !reflect.DeepEqual(after, predicted[n]) {
			AddReportEntry(fmt.Sprintf("pool %s\nbefore    %v\npredicted %v\nis        %v\nchanged from %+v, %d replicas\nto           %+v, %d replicas",
				w.name, before, predicted[n], after, w.pool.Spec, w.replicas, w.next, w.nextCount), ReportEntryVisibilityFailureOrVerbose)
			differences = append(differences, w.name)
		}
		if !maps.EqualFunc(before, after, slices.Equal[[]string]) {
			moves++
		}
	}
	Expect(differences).To(BeEmpty())
	Expect(moves).To(BeNumerically(">", worldCount/2), "the changes make a difference")
})

// forEach calls a function for all worlds, several at a time.
func forEach(worlds []world, do func(world) error) {
	GinkgoHelper()
	forEachIndex(worlds, func(_ int, w world) error { return do(w) })
}

func forEachIndex(worlds []world, do func(int, world) error) {
	GinkgoHelper()
	var calls errgroup.Group
	calls.SetLimit(atATime)
	for n, w := range worlds {
		calls.Go(func() error {
			if err := do(n, w); err != nil {
				return fmt.Errorf("pool %s: %w", w.name, err)
			}
			return nil
		})
	}
	Expect(calls.Wait()).To(Succeed())
}

func createWorld(ctx context.Context, w world) error {
	if err := api.Create(ctx, w.workload()); err != nil {
		return err
	}
	return api.Create(ctx, w.pool.DeepCopy())
}

// changeWorld changes the pool and scales the workload.
func changeWorld(ctx context.Context, w world) error {
	pool := &v1alpha1.WorkerPool{}
	if err := api.Get(ctx, client.ObjectKeyFromObject(w.pool), pool); err != nil {
		return err
	}
	w.next.Config = pool.Spec.Config
	pool.Spec = w.next
	if err := api.Update(ctx, pool); err != nil {
		return err
	}
	patch := client.RawPatch(client.Merge.Type(), fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, w.nextCount))
	return api.Patch(ctx, w.workload(), patch)
}

// awaitPods waits until every workload has as many pods as it should have, all of them Ready, and no other pod is left.
func awaitPods(ctx context.Context, worlds []world, wanted func(world) int32) {
	GinkgoHelper()
	Eventually(func() (map[string]int32, error) {
		pods := &corev1.PodList{}
		if err := api.List(ctx, pods, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		missing := map[string]int32{}
		for _, w := range worlds {
			missing[w.name] = wanted(w)
		}
		for n := range pods.Items {
			pod := &pods.Items[n]
			missing[pod.Labels["app"]]--
			if !isReady(pod) {
				missing[pod.Name]++ // it must be Ready, or gone
			}
		}
		maps.DeleteFunc(missing, func(_ string, count int32) bool { return count == 0 })
		return missing, nil
	}).WithContext(ctx).Should(BeEmpty())
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// awaitConverged waits until the operator has nothing more to do for any pool.
func awaitConverged(ctx context.Context, worlds []world) {
	GinkgoHelper()
	Eventually(func() ([]string, error) {
		pools := &v1alpha1.WorkerPoolList{}
		if err := api.List(ctx, pools, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		var waiting []string
		for n := range pools.Items {
			if pool := &pools.Items[n]; !hasConverged(pool) {
				waiting = append(waiting, pool.Name)
			}
		}
		return waiting, nil
	}).WithContext(ctx).Should(BeEmpty(), "of %d pools", len(worlds))
}

// hasConverged reports whether a pool has converged on its current spec. One without workers has nothing to converge on.
func hasConverged(pool *v1alpha1.WorkerPool) bool {
	status := pool.Status
	if status.ObservedGeneration != pool.Generation || pool.Spec.Replicas != nil && status.Size != *pool.Spec.Replicas {
		return false
	}
	if status.ExpectedSize == 0 && status.Revision == 0 {
		return status.Phase != ""
	}
	return meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionConverged) && status.Size == status.ExpectedSize
}

// predict returns where the jobs of a pool will be according to `kubectl swarm plan`.
func predict(ctx context.Context, w world) (jobsByOrdinal, error) {
	command := exec.CommandContext(ctx, testcluster.FromRoot("bin", "kubectl-swarm"),
		"plan", "pool", w.name, "--namespace", namespace, "--output", "json")
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	var plan prediction
	if err := json.Unmarshal(out, &plan); err != nil {
		return nil, err
	}
	after := newestRevision(ctx, w)
	for _, worker := range plan.Workers {
		jobs := slices.DeleteFunc(after[worker.Ordinal], func(job string) bool { return slices.Contains(worker.Loses, job) })
		jobs = append(jobs, worker.Gains...)
		slices.Sort(jobs)
		after[worker.Ordinal] = jobs
	}
	maps.DeleteFunc(after, func(_ int, jobs []string) bool { return len(jobs) == 0 })
	return after, nil
}

// newestRevision returns where the jobs are according to the newest stored revision.
func newestRevision(ctx context.Context, w world) jobsByOrdinal {
	stored := storedRevisions(ctx, w)
	if len(stored) == 0 {
		return jobsByOrdinal{}
	}
	return stored[len(stored)-1]
}

// revisions returns where the jobs were before the change, and where they are now.
func revisions(ctx context.Context, w world) (before, after jobsByOrdinal) {
	stored := storedRevisions(ctx, w)
	if len(stored) > 0 {
		before = stored[0]
	}
	return before, newestRevision(ctx, w)
}

func storedRevisions(ctx context.Context, w world) []jobsByOrdinal {
	list := &appsv1.ControllerRevisionList{}
	if err := api.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelPool: w.name}); err != nil {
		AbortSuite(err.Error())
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	var stored []jobsByOrdinal
	for n := range list.Items {
		data, err := codec.DecodeRevision(list.Items[n].Data.Raw)
		if err != nil {
			AbortSuite(err.Error())
		}
		shares := jobsByOrdinal{}
		for _, share := range data.Workers {
			if len(share.Jobs) > 0 {
				shares[share.Ordinal] = slices.Sorted(slices.Values(share.Jobs))
			}
		}
		stored = append(stored, shares)
	}
	return stored
}
