package pool

import (
	"context"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/fakeworkers"
)

// hotReload waits for workers without a deadline.
func hotReload(spec *v1alpha1.WorkerPoolSpec) { spec.Refresh.Policy = v1alpha1.RefreshHotReload }

// A revoke is a hand-over that waits for w-0 after a third worker has joined.
type revoke struct {
	*environment
	moved []string // jobs that w-0 was asked to give up
	keeps []string
}

// startRevoke gives w-0 a fault, and adds a third worker that should get some of its jobs.
func startRevoke(ctx context.Context, wrong func(*fakeworkers.Worker), changes ...spec) *revoke {
	GinkgoHelper()
	s := newStatefulSetPool(ctx, 2, jobsNamed("a b c d e f g h i"), changes...)
	before := s.lists(ctx)["w-0"]
	wrong(s.worker("w-0"))
	s.scale(ctx, 3)
	var keeps []string
	Eventually(func() []string {
		keeps = s.lists(ctx)["w-0"]
		return keeps
	}).Should(Not(HaveLen(len(before))))
	moved := slices.DeleteFunc(slices.Clone(before), func(job string) bool { return slices.Contains(keeps, job) })
	return &revoke{s, moved, keeps}
}

// grantedJobs returns the jobs that w-0 has lost and that are on a list.
func (r *revoke) grantedJobs(ctx context.Context) []string {
	GinkgoHelper()
	var jobs []string
	for _, list := range r.lists(ctx) {
		for _, job := range list {
			if slices.Contains(r.moved, job) {
				jobs = append(jobs, job)
			}
		}
	}
	return slices.Sorted(slices.Values(jobs))
}

// expectWithheld checks that no other worker gets a job that w-0 may hold.
func (r *revoke) expectWithheld(ctx context.Context) {
	GinkgoHelper()
	r.waiting(ctx, "w-0")
	Consistently(r.grantedJobs).WithContext(ctx).Should(BeEmpty())
}

// expectDone checks that every job is on its worker in the end.
func (r *revoke) expectDone(ctx context.Context) {
	GinkgoHelper()
	r.awaitSettled(ctx)
	Expect(r.grantedJobs(ctx)).To(Equal(r.moved))
	Expect(slices.Sorted(maps.Keys(r.lists(ctx)))).To(Equal([]string{"w-0", "w-1", "w-2"}))
	Expect(r.lists(ctx)).To(HaveEach(HaveLen(3)))
	Expect(r.lists(ctx)["w-0"]).To(Equal(r.keeps))
}

var _ = Describe("A hand-over", func() {
	It("[P21] waits until the file has arrived, and costs two versions", func(ctx SpecContext) {
		r := startRevoke(ctx, (*fakeworkers.Worker).PauseFileUpdates)
		r.expectWithheld(ctx)
		r.worker("w-0").ResumeFileUpdates()
		r.expectDone(ctx)
		Expect(r.version(ctx)).To(BeEquivalentTo(3))
	})

	It("starts nothing that was moved, when a worker is restarted on a stale file", func(ctx SpecContext) {
		r := startRevoke(ctx, (*fakeworkers.Worker).PauseFileUpdates)
		Eventually(r.worker("w-0").ConfigVersion).Should(Equal("2"))
		r.worker("w-0").Restart()
		r.expectWithheld(ctx)
		Consistently(func() []string { return workers.Journal(r.namespace).Running()["w-0"] }).Should(BeEmpty())
		r.worker("w-0").ResumeFileUpdates()
		r.expectDone(ctx)
		for _, job := range r.moved {
			Expect(workers.Journal(r.namespace).Starts()).To(HaveKeyWithValue(job, 2), "by w-0 at first and by its new owner")
		}
	})

	It("does not believe another pod at the address", func(ctx SpecContext) {
		r := startRevoke(ctx, (*fakeworkers.Worker).PauseFileUpdates, hotReload)
		other := r.worker("w-1").Address()
		patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"podIP":"`+other+`","podIPs":[{"ip":"`+other+`"}]}}`))
		Expect(api.Status().Patch(ctx, r.pod(ctx, "w-0"), patch)).To(Succeed())
		r.expectWithheld(ctx)
		own := r.worker("w-0").Address()
		patch = client.RawPatch(types.MergePatchType, []byte(`{"status":{"podIP":"`+own+`","podIPs":[{"ip":"`+own+`"}]}}`))
		Expect(api.Status().Patch(ctx, r.pod(ctx, "w-0"), patch)).To(Succeed())
		r.worker("w-0").ResumeFileUpdates()
		r.expectDone(ctx)
	})

	DescribeTable("[P08/lying-worker] does not believe a worker that", func(ctx SpecContext, lie func(*fakeworkers.WorkerStatus)) {
		r := startRevoke(ctx, func(worker *fakeworkers.Worker) {
			worker.PauseFileUpdates()
			worker.OverrideStatus(lie)
		}, hotReload)
		r.expectWithheld(ctx)
		r.worker("w-0").OverrideStatus(nil)
		r.worker("w-0").ResumeFileUpdates()
		r.expectDone(ctx)
	},
		Entry("[P08/acknowledged-by-uid] has another UID", func(answer *fakeworkers.WorkerStatus) {
			answer.PodUID, answer.Version, answer.Config = "another", 2, 2
		}),
		Entry("has another name", func(answer *fakeworkers.WorkerStatus) { answer.Worker, answer.Version, answer.Config = "w-1", 2, 2 }),
		Entry("says a version that was never published", func(answer *fakeworkers.WorkerStatus) { answer.Version, answer.Config = 999, 999 }),
		Entry("says a version above that of its file", func(answer *fakeworkers.WorkerStatus) { answer.Version = 2 }),
	)

	It("goes on after a crash between stop and acknowledgement", func(ctx SpecContext) {
		r := startRevoke(ctx, (*fakeworkers.Worker).CrashAfterNextStop, hotReload)
		r.expectDone(ctx)
		exits := 0
		for _, entry := range workers.Journal(r.namespace) {
			if entry.Event == "exit" && entry.Worker == "w-0" {
				exits++
			}
		}
		Expect(exits).To(Equal(1))
	})

	It("goes on when the pod that may hold something is deleted, and comes back under its name", func(ctx SpecContext) {
		r := startRevoke(ctx, (*fakeworkers.Worker).PauseFileUpdates, hotReload)
		r.expectWithheld(ctx)
		former := r.pod(ctx, "w-0")
		Expect(api.Delete(ctx, former)).To(Succeed())
		r.expectDone(ctx)
		Expect(r.pod(ctx, "w-0").UID).NotTo(Equal(former.UID))
	})

	It("[P08/silent-worker, P08/converged-only-then] waits under HotReload for a worker that says nothing, past the deadline, and says for whom", func(ctx SpecContext) {
		r := startRevoke(ctx, (*fakeworkers.Worker).RejectRequests, hotReload, deadline(1))
		former := r.pod(ctx, "w-0").UID
		Eventually(r.conditionText).WithContext(ctx).WithArguments(v1alpha1.ConditionConverged).
			Should(ContainSubstring("w-0: it has not confirmed version 2, and may still hold"))
		r.expectWithheld(ctx)
		Expect(r.pod(ctx, "w-0").UID).To(Equal(former))
		Expect(r.lists(ctx)["w-2"]).NotTo(BeEmpty(), "what others have given up is not held back")
	})

	It("[P08/silent-worker] replaces under Auto a worker that says nothing, after the deadline", func(ctx SpecContext) {
		r := startRevoke(ctx, func(worker *fakeworkers.Worker) {
			worker.PauseFileUpdates()
			worker.RejectRequests()
		})
		former := r.pod(ctx, "w-0").UID
		r.expectWithheld(ctx)
		r.change(ctx, deadline(1))
		Eventually(r.events).WithContext(ctx).Should(ContainElement(And(HavePrefix("Normal Replacing: pod w-0: "),
			ContainSubstring("it has not acknowledged its list in time"))))
		r.change(ctx, deadline(600))
		r.expectDone(ctx)
		Expect(r.pod(ctx, "w-0").UID).NotTo(Equal(former))
	})

	It("is planned anew from who may hold what, while a grant is not acknowledged", func(ctx SpecContext) {
		s := newStatefulSetPool(ctx, 2, jobsNamed("a b c"), hotReload, func(spec *v1alpha1.WorkerPoolSpec) { spec.Replicas = new(int32(2)) })
		held := s.worker("w-1")
		held.PauseFileUpdates()
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.Jobs = jobsNamed("a b c d") })
		Eventually(s.lists).WithContext(ctx).Should(HaveKeyWithValue("w-1", []string{"c", "d"}))
		s.waiting(ctx, "w-1")
		// All jobs should go to w-0 now, including the job that w-1 may or may not have.
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.Replicas = new(int32(1)) })
		Eventually(s.lists).WithContext(ctx).Should(Equal(map[string][]string{"w-0": {"a", "b"}}))
		s.waiting(ctx, "w-1")
		Consistently(s.lists).WithContext(ctx).Should(Equal(map[string][]string{"w-0": {"a", "b"}}))
		Expect(s.pod(ctx, "w-1").DeletionTimestamp).To(BeNil(), "no worker is scaled away that may hold a job")
		held.ResumeFileUpdates()
		Eventually(s.lists).WithContext(ctx).Should(Equal(map[string][]string{"w-0": {"a", "b", "c", "d"}}))
		s.awaitSettled(ctx)
		Eventually(func() error {
			return api.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "w-1"}, &corev1.Pod{})
		}).ShouldNot(Succeed())
		Expect(workers.Journal(s.namespace).Starts()).To(HaveKeyWithValue("d", 1), "w-1 has never begun it")
	})

	DescribeTable("costs as many versions as its kind says", func(ctx SpecContext, handoff v1alpha1.PoolHandoff, versions int, overlaps bool) {
		s := &environment{namespace: namespace(ctx)} // it may have two owners on purpose
		DeferCleanup(func(ctx SpecContext) {
			Expect(api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})).To(Succeed())
		})
		s.statefulSet(ctx, 2)
		s.create(ctx, jobsNamed("a b c d e f"), func(spec *v1alpha1.WorkerPoolSpec) { spec.Handoff = handoff })
		s.awaitSettled(ctx)
		before := s.version(ctx)
		s.scale(ctx, 3)
		Eventually(func() map[string][]string { return workers.Journal(s.namespace).Running() }).Should(And(HaveLen(3), HaveEach(HaveLen(2))))
		s.awaitSettled(ctx)
		Expect(s.version(ctx) - before).To(BeEquivalentTo(versions))
		if overlaps {
			Expect(workers.Journal(s.namespace).Verify()).To(MatchError(ContainSubstring("two owners")))
		}
	},
		Entry("Exclusive", v1alpha1.HandoffExclusive, 2, false),
		Entry("Overlap", v1alpha1.HandoffOverlap, 2, true),
		Entry("BestEffort", v1alpha1.HandoffBestEffort, 1, false),
	)
})

// deadline is how long workers have to load a list.
func deadline(seconds int32) spec {
	return func(spec *v1alpha1.WorkerPoolSpec) { spec.Refresh.DeadlineSeconds = seconds }
}
