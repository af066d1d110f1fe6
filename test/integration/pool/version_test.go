package pool

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// restart starts another leader, and waits until it has seen the pool: it has raised the fence of the ConfigMap, or made a new ConfigMap.
func (s *environment) restart(ctx context.Context, meanwhile func()) {
	GinkgoHelper()
	fence := func(g Gomega) string {
		object := &corev1.ConfigMap{}
		g.Expect(api.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: config}, object)).To(Succeed())
		return string(object.UID) + " " + object.Annotations[v1alpha1.AnnotationFence]
	}
	before := fence(Default)
	stopOperator()
	meanwhile()
	startOperator()
	Eventually(fence).Should(Not(Equal(before)))
}

// writes are what the operator has written in the namespace since then, by the audit log.
func (s *environment) writes(since time.Time) []string {
	GinkgoHelper()
	data := os.Getenv("DEVCLUSTER_DATA")
	file, err := os.Open(filepath.Join(data, "logs/control-plane/audit-1.log"))
	if data == "" || err != nil {
		Skip("no audit log: run in `bin/devcluster run --audit -- ...`")
	}
	defer file.Close()
	var requests []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var request struct {
			Verb, UserAgent string
			ObjectRef       struct{ Resource, Subresource, Namespace, Name string }
			Received        time.Time `json:"requestReceivedTimestamp"`
		}
		if !strings.Contains(lines.Text(), s.namespace) || json.Unmarshal(lines.Bytes(), &request) != nil || request.Received.Before(since) {
			continue
		}
		writing := slices.Contains([]string{"create", "update", "patch", "delete"}, request.Verb)
		if of := request.ObjectRef; writing && of.Namespace == s.namespace && of.Resource != "events" && strings.HasPrefix(request.UserAgent,
			"swarm-operator/") {
			requests = append(requests, strings.TrimSuffix(fmt.Sprintf("%s %s/%s/%s", request.Verb, of.Resource, of.Name, of.Subresource), "/"))
		}
	}
	Expect(lines.Err()).NotTo(HaveOccurred())
	return requests
}

// doNothing waits for a time in which nothing changes.
func doNothing() {}

var _ = Describe("What is published", func() {
	It("[P01, P11/plus-one-per-change, P11/unchanged-otherwise] follows a source at once, and its version grows by one for each change",
		func(ctx SpecContext) {
			s := newEnvironment(ctx)
			s.source(ctx, "list", "jobs: [a, b]")
			s.statefulSet(ctx, 2)
			s.create(ctx, nil, from("list"))
			s.awaitSettled(ctx)
			Expect(s.version(ctx)).To(BeEquivalentTo(1))
			Expect(s.lists(ctx)).To(Equal(map[string][]string{"w-0": {"a"}, "w-1": {"b"}}))
			for number, step := range []struct {
				list, text string
			}{
				{"a\nb\nc\n",
					"version: 2\nworkloads:\n  w-0:\n    jobs:\n      - a\n      - c\n    version: 2\n  w-1:\n    jobs:\n      - b\n    version: 1\n"},
				{"# the same\na\nb\nc\n",
					"version: 2\nworkloads:\n  w-0:\n    jobs:\n      - a\n      - c\n    version: 2\n  w-1:\n    jobs:\n      - b\n    version: 1\n"},
				{"a\nb\nc\nd\n",
					"version: 3\nworkloads:\n  w-0:\n    jobs:\n      - a\n      - c\n    version: 2\n  w-1:\n    jobs:\n      - b\n      - d\n    version: 3\n"},
				{"b\nc\nd\n",
					"version: 4\nworkloads:\n  w-0:\n    jobs:\n      - c\n    version: 4\n  w-1:\n    jobs:\n      - b\n      - d\n    version: 3\n"},
			} {
				s.source(ctx, "list", step.list)
				Eventually(s.text).WithContext(ctx).Should(Equal(step.text), "step %d", number)
				s.awaitSettled(ctx)
			}
			Expect(workers.Journal(s.namespace).Starts()).To(Equal(map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}))
		})

	It("[P02/across-restarts, P02/config-map-deleted, P11/survives-restart] is the same to the byte, whatever happens to the operator and to the ConfigMap", func(ctx SpecContext) {
		s := newStatefulSetPool(ctx, 3, jobsNamed("a b c d e f g"))
		s.scale(ctx, 2)
		Eventually(func() map[string][]string { return workers.Journal(s.namespace).Running() }).Should(HaveLen(2))
		s.awaitSettled(ctx)
		before, starts := s.text(ctx), workers.Journal(s.namespace).Starts()
		s.restart(ctx, doNothing)
		Expect(s.text(ctx)).To(Equal(before))
		s.restart(ctx, func() { Expect(api.Delete(ctx, s.config(ctx))).To(Succeed()) })
		Eventually(s.text).WithContext(ctx).Should(Equal(before), "it is created without a file first")
		s.awaitSettled(ctx)
		Expect(workers.Journal(s.namespace).Starts()).To(Equal(starts), "no worker has noticed")
	})

	It("[P11/unchanged-otherwise] is written only when it changes, and by a new leader to raise its fence", func(ctx SpecContext) {
		s := newStatefulSetPool(ctx, 2, jobsNamed("a b c"))
		began := time.Now()
		change(ctx, s.pool, func(pool *v1alpha1.WorkerPool) {
			pool.Annotations = map[string]string{v1alpha1.AnnotationReconcileAt: "now"}
		})
		Consistently(s.writes).WithArguments(began).Should(BeEmpty())
		before := s.text(ctx)
		s.restart(ctx, doNothing)
		Consistently(s.writes).WithArguments(began).Should(Equal([]string{"update configmaps/w-config"}))
		Expect(s.text(ctx)).To(Equal(before))
	})

	It("[O19/drift-reverted, O19/drift-event] is brought back when another program writes to it", func(ctx SpecContext) {
		s := newStatefulSetPool(ctx, 2, jobsNamed("a b c d"))
		before := s.lists(ctx)
		change(ctx, s.config(ctx), func(object *corev1.ConfigMap) {
			object.Data["config.yml"] = strings.Replace(object.Data["config.yml"], "      - a\n", "", 1)
		})
		Eventually(s.lists).WithContext(ctx).Should(Equal(before))
		s.awaitSettled(ctx)
		Eventually(s.events).WithContext(ctx).Should(ContainElement(HavePrefix("Normal ConfigRestored: ")))
		Expect(s.lists(ctx)).To(Equal(before))
	})

	// make bench PART=pools counts the same for 10,000 jobs on 100 workers.
	It("costs at most three writes when a worker is added, and one for each worker with another list", func(ctx SpecContext) {
		s := newStatefulSetPool(ctx, 3, jobsNamed("a b c d e f g h i j k l"))
		before, began := s.lists(ctx), time.Now()
		s.scale(ctx, 4)
		Eventually(s.lists).WithContext(ctx).Should(HaveKey("w-3"))
		s.awaitSettled(ctx)
		changed := 0
		for worker, list := range s.lists(ctx) {
			nudge := "patch pods/" + worker
			if slices.Equal(list, before[worker]) {
				Expect(s.writes(began)).NotTo(ContainElement(nudge))
				continue
			}
			changed++
			if s.lastNudge(ctx, worker) == "" { // otherwise it has acknowledged late, and was nudged again
				Expect(slices.DeleteFunc(s.writes(began), func(one string) bool { return one != nudge })).To(HaveLen(1))
			}
		}
		Expect(changed).To(BeNumerically(">", 1), "the new worker, and those that gave it jobs")
		others := slices.DeleteFunc(s.writes(began), func(one string) bool {
			return strings.HasPrefix(one, "patch pods/") || strings.Contains(one, " workerpools/")
		})
		Expect(len(others)).To(BeNumerically("<=", 3), "%v", others)
	})

	It("cannot be overwritten by a late write of an old leader", func(ctx SpecContext) {
		s := newStatefulSetPool(ctx, 2, jobsNamed("a b c"))
		late := s.config(ctx)
		s.restart(ctx, doNothing)
		before := s.text(ctx)
		late.Data["config.yml"] = "version: 2\nworkloads: {}\n"
		Expect(apierrors.IsConflict(api.Update(ctx, late))).To(BeTrue())
		Expect(s.text(ctx)).To(Equal(before))
	})

	It("does not change while the pool is paused, by its annotation or by its mode", func(ctx SpecContext) {
		s := newStatefulSetPool(ctx, 2, jobsNamed("a b c"))
		began := time.Now()
		change(ctx, s.pool, func(pool *v1alpha1.WorkerPool) {
			pool.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
			pool.Spec.Jobs = jobsNamed("a b c d")
		})
		Consistently(s.writes).WithArguments(began).Should(BeEmpty())
		change(ctx, s.pool, func(pool *v1alpha1.WorkerPool) { pool.Annotations = nil })
		s.awaitSettled(ctx)
		Expect(s.version(ctx)).To(BeEquivalentTo(2))

		began = time.Now()
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.Mode, spec.Jobs = v1alpha1.PoolPaused, jobsNamed("a c") })
		Eventually(s.conditionText).WithContext(ctx).WithArguments(v1alpha1.ConditionConverged).Should(HavePrefix("False Paused: "))
		Consistently(s.writes).WithArguments(began).Should(HaveEach("patch workerpools/streams/status"))
		Expect(s.version(ctx)).To(BeEquivalentTo(2))
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.Mode = v1alpha1.PoolRunning })
		s.awaitSettled(ctx)
		Expect(s.version(ctx)).To(BeEquivalentTo(3))
	})

	It("[O10/history] [O10/rollback] can be rolled back to a revision that is kept, and comes back", func(ctx SpecContext) {
		s := newStatefulSetPool(ctx, 2, jobsNamed("a b"), func(spec *v1alpha1.WorkerPoolSpec) { spec.RevisionHistoryLimit = 2 })
		wanted := map[int64]map[string][]string{1: s.lists(ctx)}
		for n, jobs := range []string{"a b c", "a b c d", "c d"} {
			s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.Jobs = jobsNamed(jobs) })
			s.awaitSettled(ctx)
			wanted[int64(n)+2] = s.lists(ctx)
		}
		Expect(s.pool.Status.Revision).To(BeEquivalentTo(4))
		Eventually(s.revisions).WithContext(ctx).Should(Equal([]int64{2, 3, 4}))

		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.RollbackTo = 3 })
		s.awaitSettled(ctx)
		Expect(s.lists(ctx)).To(Equal(wanted[3]))
		Expect(s.pool.Status.Revision).To(BeEquivalentTo(5), "a rollback is a new revision with earlier content")
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.Jobs = jobsNamed("e f g") })
		s.awaitSettled(ctx)
		Expect(s.lists(ctx)).To(Equal(wanted[3]), "it is pinned")
		Expect(s.revisions(ctx)).To(ContainElement(BeEquivalentTo(3)), "what is pinned is kept")
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.RollbackTo = 0 })
		s.awaitSettled(ctx)
		Expect(workers.Journal(s.namespace).Running()).To(HaveLen(2))
		Expect(s.pool.Status.Jobs).To(BeEquivalentTo(3))
	})
})

// revisions are the numbers of the revisions that are kept.
func (s *environment) revisions(ctx context.Context) ([]int64, error) {
	list := &appsv1.ControllerRevisionList{}
	err := api.List(ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{v1alpha1.LabelPool: s.pool.Name})
	var numbers []int64
	for _, revision := range list.Items {
		numbers = append(numbers, revision.Revision)
	}
	slices.Sort(numbers)
	return numbers, err
}
