package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

func TestPlanOfGolden27(t *testing.T) {
	for _, c := range []struct {
		reason string
		line   string
		golden string
		first  string
	}{
		{"a third worker", "plan pool cameras --replicas 3", "plan-3.txt", "27 jobs over 2 -> 3 workers: 9 move, 18 stay; 2 published configs"},
		{"as it is", "plan pool cameras", "plan-same.txt", "Nothing would move: 27 jobs over 2 workers"},
		{"no replicas", "plan pool cameras --replicas 0", "plan-0.txt",
			"27 jobs over 2 -> 0 workers: 0 move, 0 stay, 27 unassigned; 1 published config"},
		{"no replicas, in full", "plan pool cameras --replicas 0 -o wide", "plan-0-wide.txt",
			"27 jobs over 2 -> 0 workers: 0 move, 0 stay, 27 unassigned; 1 published config"},
		{"other jobs", "plan pool cameras --add-job new --remove-job stream:foo:new", "plan-jobs.txt",
			"27 jobs over 2 workers: 0 move, 26 stay, 1 start, 1 end; 2 published configs"},
		{"another strategy, in any case", "plan pool cameras --replicas 3 --strategy coNTiguous", "plan-contiguous.txt",
			"27 jobs over 2 -> 3 workers: 14 move, 13 stay; 2 published configs"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			got := newCLIHarness(t, convergedPool27(t)...).mustRun(c.line)
			if first, _, _ := strings.Cut(got, "\n"); first != c.first {
				t.Errorf("got %q", first)
			}
			compare(t, c.golden, got)
		})
	}
}

func TestPlanAsData(t *testing.T) {
	w := newCLIHarness(t, convergedPool27(t)...)
	made := mustDecode[planResult](t, w.mustRun("plan pool cameras --replicas 3 -o json"))
	got := []int{made.Moving, made.Staying, made.Configs, len(made.Moves), made.SizeBefore, made.SizeAfter}
	if !slices.Equal(got, []int{9, 18, 2, 9, 2, 3}) {
		t.Errorf("got %v", got)
	}
	for _, move := range made.Moves {
		if move.To != "swarm-worker-2" || move.Reason == "" {
			t.Errorf("got %+v", move)
		}
	}
	compare(t, "plan-3.yaml", w.mustRun("plan pool cameras --replicas 3 -o yaml"))
}

// The command reports what the engine decides, for every strategy.
func TestPlanIsTheEngines(t *testing.T) {
	for _, strategy := range strategies {
		t.Run(string(strategy), func(t *testing.T) {
			made := mustDecode[planResult](t, newCLIHarness(t, convergedPool27(t)...).mustRun("plan pool cameras --replicas 5 -o json --strategy "+
				string(strategy)))
			file, _ := codec.ParseFile(text(t, "pool-27-expected.yml"))
			var before []assign.Share
			for n, entry := range file.Workers {
				before = append(before, assign.Share{Worker: entry.Worker, Ordinal: n, Jobs: entry.Jobs})
			}
			jobs, _ := codec.ParseJobs(text(t, "pool-27-jobs.txt"))
			list, _ := assign.NewJobList(jobs)
			decision := assign.Plan(assign.Input{
				Jobs: list, Workers: fiveWorkers(), Previous: assign.Restore(before, 0), Strategy: strategy,
			})
			var want []jobMove
			for _, move := range decision.Moves() {
				want = append(want, jobMove(move))
			}
			if !slices.Equal(made.Moves, want) {
				t.Errorf("got %v, want %v", made.Moves, want)
			}
		})
	}
}

// fiveWorkers are the workers of a StatefulSet of five pods.
func fiveWorkers() []assign.Worker {
	var workers []assign.Worker
	for n := range 5 {
		workers = append(workers, assign.Worker{Name: fmt.Sprint("swarm-worker-", n), Ordinal: n})
	}
	return workers
}

// smallPool is a pool of some jobs on a StatefulSet that has published nothing.
func smallPool(jobs ...string) *v1alpha1.WorkerPool {
	pool := cameras()
	pool.Spec.JobsFrom = nil
	for _, job := range jobs {
		pool.Spec.Jobs = append(pool.Spec.Jobs, v1alpha1.Job{Name: job})
	}
	return pool
}

func TestPlanOfEachState(t *testing.T) {
	begun := statefulSet(2)
	begun.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5}
	scaled := smallPool("a", "b")
	scaled.Spec.Replicas = new(int32(1))
	full := smallPool("a", "b", "c")
	full.Spec.CapacityPerWorker = 1
	alone := smallPool("a", "b")
	alone.Spec.Jobs[1].QoS = v1alpha1.JobDedicated
	paused := smallPool("a")
	paused.Spec.Mode = v1alpha1.PoolPaused
	pinned := smallPool("a")
	pinned.Spec.RollbackTo = 4
	loose := smallPool("a", "b")
	loose.Spec.Handoff = v1alpha1.HandoffBestEffort
	alphabet := fileOf(3, publishedEntry("swarm-worker-0", "a", "b"))
	flight := configMap("swarm-worker-config", "config.yml", fileOf(3, publishedEntry("swarm-worker-0", "a"),
		publishedEntry("swarm-worker-1")))
	flight.Annotations = ledgerOf(t, assign.Record{Worker: "swarm-worker-0"}.WithList(1, []string{"a", "b"}).WithList(3, []string{"a"}))
	waited, landed := smallPool("a", "b"), smallPool("a", "b")
	waited.Spec.CapacityPerWorker, landed.Spec.CapacityPerWorker = 1, 1
	waited.Status = v1alpha1.WorkerPoolStatus{Version: 3, Workers: []v1alpha1.WorkerStatus{{Name: "swarm-worker-0",
		Acknowledged: v1alpha1.AckWaiting}}}
	landed.Status = v1alpha1.WorkerPoolStatus{Version: 3, Workers: []v1alpha1.WorkerStatus{{Name: "swarm-worker-0",
		Acknowledged: v1alpha1.AckReceived}}}
	strange := configMap("swarm-worker-config", "config.yml", fileOf(3, publishedEntry("other", "a")))
	per := smallPool("a", "b")
	per.Spec.Config.Layout = v1alpha1.LayoutPerWorker
	for _, c := range []struct {
		reason  string
		objects []client.Object
		golden  string
	}{
		{"the first plan", []client.Object{smallPool("a", "b", "c"), statefulSet(2)}, "plan-first.txt"},
		{"ordinals that begin elsewhere", []client.Object{smallPool("a", "b"), begun}, "plan-start.txt"},
		{"a pool that scales its workers in", []client.Object{scaled, statefulSet(2),
			configMap("swarm-worker-config", "config.yml", fileOf(3, publishedEntry("swarm-worker-0", "a"), publishedEntry("swarm-worker-1", "b")))},
			"plan-scaled.txt"},
		{"no room", []client.Object{full, statefulSet(2)}, "plan-full.txt"},
		{"a job that wants to be alone", []client.Object{alone, statefulSet(1)}, "plan-dedicated.txt"},
		{"a pool that is paused", []client.Object{paused, statefulSet(1)}, "plan-paused.txt"},
		{"a pool that is pinned", []client.Object{pinned, statefulSet(1)}, "plan-pinned.txt"},
		{"both at once", []client.Object{loose, statefulSet(2), configMap("swarm-worker-config", "config.yml", alphabet)}, "plan-besteffort.txt"},
		{"a hand-over that is not over", []client.Object{smallPool("a", "b"), statefulSet(2), flight,
			revisionOf(t, 2, fileOf(4, publishedEntry("swarm-worker-0", "a"), publishedEntry("swarm-worker-1", "b")))}, "plan-flight.txt"},
		{"a job that its worker has not given up", []client.Object{waited, statefulSet(2), flight}, "plan-waited.txt"},
		{"a job that its worker has given up", []client.Object{landed, statefulSet(2), flight}, "plan-landed.txt"},
		{"a config of unknown workers", []client.Object{smallPool("a"), statefulSet(1), strange}, "plan-strange.txt"},
		{"a config for each worker", []client.Object{per, statefulSet(2), configMap("swarm-worker-config-swarm-worker-0", "config.yml", alphabet),
			configMap("other", "config.yml", "{")}, "plan-perworker.txt"},
		{"nothing at all", []client.Object{smallPool(), statefulSet(0)}, "plan-nothing.txt"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			compare(t, c.golden, newCLIHarness(t, c.objects...).mustRun("plan pool cameras"))
		})
	}
}

// deploymentPool is a pool of four jobs on a Deployment of two pods, which have slots, and one failed pod.
func deploymentPool(slots map[string]string) []client.Object {
	pool := smallPool("a", "b", "c", "d")
	pool.Spec.Workers.Kind = v1alpha1.WorkloadDeployment
	labels := map[string]string{"app": "worker"}
	objects := []client.Object{pool, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "swarm-worker"},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}}
	for name, slot := range slots {
		pod := podOfDeployment(name)
		pod.Labels[v1alpha1.LabelSlot] = slot
		objects = append(objects, pod)
	}
	failed := podOfDeployment("swarm-worker-failed")
	failed.Status.Phase = corev1.PodFailed
	return append(objects, failed)
}

// podOfDeployment is a pod of the only ReplicaSet of the Deployment.
func podOfDeployment(name string) *corev1.Pod {
	const hash = "5f"
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("uid-" + name),
		Labels: map[string]string{"app": "worker", appsv1.DefaultDeploymentUniqueLabelKey: hash},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "swarm-worker-" + hash, UID: "uid-of-replicaset", Controller: new(true),
		}},
	}}
}

func TestPlanOfADeployment(t *testing.T) {
	published := fileOf(2, publishedEntry("swarm-worker-x", "a", "b"), publishedEntry("swarm-worker-y", "c", "d"))
	config, revision := configMap("swarm-worker-config", "config.yml", published), revisionOf(t, 1, published)
	config.Annotations = ledgerOf(t, assign.Record{Worker: "swarm-worker-y", Ordinal: 1})
	both := map[string]string{"swarm-worker-x": "0", "swarm-worker-y": "1"}
	for _, c := range []struct {
		reason  string
		objects []client.Object
		line    string
		golden  string
	}{
		{"as it is", append(deploymentPool(both), config, revision), "", "deployment-same.txt"},
		{"two more", append(deploymentPool(both), config, revision), "--replicas 4", "deployment-more.txt"},
		{"one less", append(deploymentPool(both), config, revision), "--replicas 1", "deployment-less.txt"},
		{"a pod that is gone leaves its jobs to the next one", append(deploymentPool(map[string]string{"swarm-worker-x": "0"}), config, revision), "",
			"deployment-gone.txt"},
		{"a pod that has replaced another", append(deploymentPool(map[string]string{"swarm-worker-x": "0", "swarm-worker-z": ""}), config, revision), "",
			"deployment-replaced.txt"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			compare(t, c.golden, newCLIHarness(t, c.objects...).mustRun(strings.TrimSpace("plan pool cameras "+c.line)))
		})
	}
}

// Another algorithm would move most jobs, so the operator waits for a request, and so does the plan.
func TestPlanOfAnotherAlgorithm(t *testing.T) {
	objects := convergedPool27(t)
	kept := objects[len(objects)-1].(*appsv1.ControllerRevision)
	kept.Data.Raw = []byte(strings.Replace(string(kept.Data.Raw), `"version":1`, `"algorithm":99,"version":1`, 1))
	code, _, said := newCLIHarness(t, objects...).run("plan pool cameras --strategy Hashed")
	if code != exitError || !strings.Contains(said, "hashed by algorithm 99") {
		t.Errorf("exit code %d, %s", code, said)
	}
}
