package plan

import (
	"fmt"
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// A world is a workload with a pool, and what happens to them while no operator runs.
type world struct {
	name      string
	pool      *v1alpha1.WorkerPool
	replicas  int32
	next      v1alpha1.WorkerPoolSpec // after the change
	nextCount int32                   // replicas of the workload after the change
}

// generateWorlds returns different worlds, the same ones for the same seed.
func generateWorlds(count int, seed uint64) []world {
	random := rand.New(rand.NewPCG(seed, seed))
	worlds := make([]world, count)
	for n := range worlds {
		worlds[n] = generateWorld(random, fmt.Sprintf("w%03d", n))
	}
	return worlds
}

func generateWorld(random *rand.Rand, name string) world {
	w := world{name: name, replicas: random.Int32N(5)}
	w.pool = &v1alpha1.WorkerPool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	w.pool.Spec = v1alpha1.WorkerPoolSpec{
		Workers: v1alpha1.WorkloadReference{Kind: oneOf(random, v1alpha1.WorkloadStatefulSet, v1alpha1.WorkloadDeployment), Name: name},
		Jobs:    generateJobs(random, 0, random.IntN(13)), Strategy: generateStrategy(random),
		CapacityPerWorker: oneOf[int32](random, 0, 0, 4), Handoff: oneOf(random, v1alpha1.HandoffExclusive, v1alpha1.HandoffBestEffort),
		// Nothing answers here: workers are trusted to load their lists within the deadline.
		Refresh: v1alpha1.PoolRefresh{Policy: v1alpha1.RefreshHotReload, DeadlineSeconds: 1},
	}
	if w.pool.Spec.Workers.Kind == v1alpha1.WorkloadStatefulSet {
		w.pool.Spec.Config.Layout = oneOf(random, v1alpha1.LayoutShared, v1alpha1.LayoutPerWorker)
	}
	w.change(random)
	return w
}

// change decides what happens: to the jobs, the workload, the strategy or the capacity.
func (w *world) change(random *rand.Rand) {
	w.pool.Spec.DeepCopyInto(&w.next)
	w.nextCount = w.replicas
	if random.IntN(4) == 0 { // the pool scales its workload, which nothing else may disturb: it takes more than one plan
		w.pool.Spec.Replicas = new(w.replicas)
		w.next.Replicas = new(w.replicas + random.Int32N(3))
		return
	}
	if random.IntN(3) > 0 {
		w.nextCount = random.Int32N(6)
	}
	if random.IntN(3) > 0 {
		removed := random.IntN(len(w.next.Jobs) + 1)
		w.next.Jobs = append(w.next.Jobs[removed:], generateJobs(random, 20, random.IntN(5))...)
	}
	if random.IntN(4) == 0 {
		w.next.Strategy = generateStrategy(random)
	}
	if random.IntN(4) == 0 {
		w.next.CapacityPerWorker = random.Int32N(5)
	}
}

func generateStrategy(random *rand.Rand) v1alpha1.PoolStrategy {
	return oneOf(random, v1alpha1.PoolSticky, v1alpha1.PoolContiguous, v1alpha1.PoolHashed)
}

func generateJobs(random *rand.Rand, first, count int) []v1alpha1.Job {
	var jobs []v1alpha1.Job
	for n := range count {
		jobs = append(jobs, v1alpha1.Job{
			Name: fmt.Sprintf("job-%02d", first+n), Weight: 1 + random.Int32N(3),
			QoS: oneOf(random, v1alpha1.JobShared, v1alpha1.JobShared, v1alpha1.JobShared, v1alpha1.JobDedicated),
		})
	}
	return jobs
}

func oneOf[T any](random *rand.Rand, values ...T) T { return values[random.IntN(len(values))] }

// workload returns the workload of the world.
func (w *world) workload() client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: w.name}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.name}}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(0)), Containers: []corev1.Container{{Name: "worker", Image: "example.test/worker:1"}},
		},
	}
	if w.pool.Spec.Workers.Kind == v1alpha1.WorkloadDeployment {
		return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &w.replicas, Selector: selector, Template: template}}
	}
	return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
		Replicas: &w.replicas, Selector: selector, Template: template, PodManagementPolicy: appsv1.ParallelPodManagement,
	}}
}
