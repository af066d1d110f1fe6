package pool

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

const validJobs = "jobs: [d, e]"

var _ = Describe("Jobs that cannot be read", Ordered, func() {
	var s *environment
	var before string

	BeforeAll(func(ctx SpecContext) {
		s = &environment{namespace: namespace(ctx)}
		s.source(ctx, "list", validJobs)
		s.statefulSet(ctx, 2)
		s.create(ctx, jobsNamed("a b c"), from("list"))
		s.awaitSettled(ctx)
		before = s.text(ctx)
	})
	AfterAll(func(ctx SpecContext) {
		Expect(workers.Journal(s.namespace).Verify()).To(Succeed())
		Expect(workers.Journal(s.namespace).Starts()).To(HaveEach(1), "nothing was stopped meanwhile")
		Expect(api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})).To(Succeed())
	})

	// refused input is reported, changes nothing, and the condition ends when the list is valid again.
	refused := func(ctx SpecContext, reason v1alpha1.Reason, message string) {
		GinkgoHelper()
		s.awaitDegraded(ctx, reason, message)
		Expect(s.text(ctx)).To(Equal(before))
		Expect(s.pool.Status.Revision).To(BeEquivalentTo(1))
		s.source(ctx, "list", validJobs)
		s.awaitNotDegraded(ctx)
		Expect(s.text(ctx)).To(Equal(before))
	}

	DescribeTable("change nothing, and are told with what to correct", func(ctx SpecContext, text, message string) {
		s.source(ctx, "list", text)
		refused(ctx, v1alpha1.ReasonJobsInvalid, message)
	},
		Entry("a name that the spec has", "jobs: [d, b]", `"b"`),
		Entry("a name that is there twice", "d\nd\n", `"d"`),
		Entry("no name", "jobs:\n- d\n- name: ''\n", "line 3: a job without a name"),
		Entry("a control character, escaped", "jobs:\n- \"d\\u0007\"\n", "line 2: job \"d\\a\" has control characters in its name"),
		Entry("a control character, as it is", "d\nx\x01y\n", "line 2: character U+0001"),
		Entry("YAML that does not parse", "jobs:\n- d\n- [e\n", "line"),
		Entry("weight 0", "jobs:\n- {name: d, weight: 0}\n", "line 2: weight 0 is not a whole number from 1"),
		Entry("a negative weight", "jobs:\n- {name: d, weight: -1}\n", "line 2: weight -1"),
		Entry("an unknown field", "jobs:\n- d\n- {name: e, wieght: 2}\n", `line 3: a job has no field "wieght"`),
	)

	It("may not be there at all", func(ctx SpecContext) {
		Expect(api.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "list"}})).To(Succeed())
		refused(ctx, v1alpha1.ReasonJobsNotFound, `there is no ConfigMap "list"`)
	})

	It("may be under another key", func(ctx SpecContext) {
		source := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "list"}}
		change(ctx, source, func(object *corev1.ConfigMap) { object.Data = map[string]string{"other": validJobs} })
		refused(ctx, v1alpha1.ReasonJobsNotFound, `ConfigMap "list" has no key "jobs"`)
	})

	It("may be 2 MiB long, which is too much for one ConfigMap", func(ctx SpecContext) {
		for _, name := range []string{"long-0", "long-1"} {
			var text strings.Builder
			for n := range 8192 {
				fmt.Fprintf(&text, "%s-%0120d\n", name, n)
			}
			Expect(text.Len()).To(Equal(1<<20), "as much as fits")
			s.source(ctx, name, text.String())
		}
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) {
			from("long-0")(spec)
			from("long-1")(spec)
		})
		s.awaitDegraded(ctx, v1alpha1.ReasonConfigTooLarge, "use config.layout PerWorker")
		Expect(s.text(ctx)).To(Equal(before))
		Expect(s.pool.Status.Revision).To(BeEquivalentTo(1))
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.JobsFrom = spec.JobsFrom[:1] })
		s.awaitNotDegraded(ctx)
		Expect(s.text(ctx)).To(Equal(before))
	})

	It("may be a revision that is not kept", func(ctx SpecContext) {
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.RollbackTo = 7 })
		s.awaitDegraded(ctx, v1alpha1.ReasonRevisionNotFound, "revision 7 is not kept any more: choose one of 1, or remove rollbackTo")
		Expect(s.text(ctx)).To(Equal(before))
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.RollbackTo = 0 })
		s.awaitNotDegraded(ctx)
		Expect(s.text(ctx)).To(Equal(before))
	})
})

var _ = Describe("A pool that cannot do its work", func() {
	It("is the second one of its workload, and takes over when the first is deleted", func(ctx SpecContext) {
		s := newStatefulSetPool(ctx, 2, jobsNamed("a b c"))
		before := s.text(ctx)
		first := s.pool
		s.pool = poolNamed(s.namespace, "streams-too", jobsNamed("x y"))
		Expect(api.Create(ctx, s.pool)).To(Succeed())
		s.awaitDegraded(ctx, v1alpha1.ReasonWorkloadTaken, `StatefulSet "w" has a pool already, "streams": delete one of the two`)
		Expect(s.text(ctx)).To(Equal(before))
		Expect(api.Delete(ctx, first)).To(Succeed())
		// The ConfigMap that the first pool has published still belongs to it.
		s.awaitDegraded(ctx, v1alpha1.ReasonConfigNotOurs, `ConfigMap "w-config" is not the operator's`)
		Expect(s.text(ctx)).To(Equal(before))
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.Config.Adopt = v1alpha1.AdoptAlways })
		s.awaitSettled(ctx)
		Expect(s.lists(ctx)).To(Equal(map[string][]string{"w-0": {"x"}, "w-1": {"y"}}))
	})

	It("finds a foreign ConfigMap, and takes it over only when it is told to", func(ctx SpecContext) {
		s := newEnvironment(ctx)
		theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: config},
			Data: map[string]string{"config.yml": "theirs: true\n", "more": "of it"}}
		Expect(api.Create(ctx, theirs)).To(Succeed())
		s.statefulSet(ctx, 2)
		s.create(ctx, jobsNamed("a b"))
		s.awaitDegraded(ctx, v1alpha1.ReasonConfigNotOurs, "set config.adopt to Always")
		Expect(s.config(ctx)).To(HaveField("ResourceVersion", theirs.ResourceVersion))
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.Config.Adopt = v1alpha1.AdoptAlways })
		s.awaitSettled(ctx)
		Expect(s.config(ctx).Data).To(HaveKeyWithValue("more", "of it"))
	})

	It("takes an empty ConfigMap, which is a placeholder [P17]", func(ctx SpecContext) {
		s := newEnvironment(ctx)
		Expect(api.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: config}})).To(Succeed())
		s.statefulSet(ctx, 2)
		s.create(ctx, nil)
		s.awaitSettled(ctx)
		Expect(workers.Journal(s.namespace)).To(BeEmpty())
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.Jobs = jobsNamed("a b") })
		s.awaitSettled(ctx)
		Expect(s.lists(ctx)).To(Equal(map[string][]string{"w-0": {"a"}, "w-1": {"b"}}))
	})

	It("has no workload until one is created", func(ctx SpecContext) {
		s := newEnvironment(ctx)
		s.create(ctx, jobsNamed("a b"))
		s.awaitDegraded(ctx, v1alpha1.ReasonWorkloadNotFound, `there is no StatefulSet "w"`)
		Expect(client.IgnoreNotFound(api.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: config}, &corev1.ConfigMap{}))).To(Succeed())
		s.statefulSet(ctx, 2)
		s.awaitSettled(ctx)
		s.awaitNotDegraded(ctx)
	})

	It("[P13/exclusive] [P13/infeasible] has more dedicated jobs than workers, and shares out the rest", func(ctx SpecContext) {
		s := newStatefulSetPool(ctx, 3, jobsNamed("a b c d"))
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) {
			for _, name := range []string{"x", "y", "z"} {
				spec.Jobs = append(spec.Jobs, v1alpha1.Job{Name: name, QoS: v1alpha1.JobDedicated})
			}
		})
		s.awaitDegraded(ctx, v1alpha1.ReasonJobsUnassigned, "1 of 7 jobs have no worker; z: ")
		s.awaitSettled(ctx)
		Expect(s.pool.Status.Unassigned).To(Equal([]string{"z"}))
		Expect(s.lists(ctx)).To(Equal(map[string][]string{"w-0": {"a", "b", "c", "d"}, "w-1": {"y"}, "w-2": {"x"}}))
		s.scale(ctx, 4)
		Eventually(func() map[string][]string { return workers.Journal(s.namespace).Running() }).Should(HaveLen(4))
		s.awaitNotDegraded(ctx)
		s.awaitSettled(ctx)
		Expect(s.pool.Status.Unassigned).To(BeEmpty())
	})

	It("[P13/infeasible] has more jobs than its workers may hold", func(ctx SpecContext) {
		s := newStatefulSetPool(ctx, 2, jobsNamed("a b c d e"))
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.CapacityPerWorker = 2 })
		s.awaitDegraded(ctx, v1alpha1.ReasonJobsUnassigned, "1 of 5 jobs have no worker")
		s.awaitSettled(ctx)
		Expect(s.pool.Status.Unassigned).To(HaveLen(1))
		Expect(s.lists(ctx)).To(HaveEach(HaveLen(2)))
		s.change(ctx, func(spec *v1alpha1.WorkerPoolSpec) { spec.CapacityPerWorker = 3 })
		s.awaitNotDegraded(ctx)
		s.awaitSettled(ctx)
	})
})
