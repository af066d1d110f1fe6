package operator

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

var _ = Describe("A task and its swarm", Serial, Ordered, func() {
	var (
		ns    string
		swarm *v1alpha1.Swarm
	)

	BeforeAll(func(ctx SpecContext) {
		ns = namespace(ctx, nil)
		runAgents(ctx, ns)
		startOperator(linkAddress)
		swarm = newTeam(ns, "ants", 1)
		Expect(api.Create(ctx, swarm)).To(Succeed())
	})

	It("keeps a result with nulls as the agent returned it", func(ctx SpecContext) {
		const result = `{"a":null,"b":{"c":null,"d":[null,{"e":null}]},"f":12345678901234567}`
		task := submit(ctx, swarm, "nulls", taskOrder{Result: result})
		Eventually(phaseOf(ns, "nulls")).WithContext(ctx).Should(Equal(v1alpha1.TaskCompleted))
		Expect(api.Get(ctx, client.ObjectKeyFromObject(task), task)).To(Succeed())
		Expect(task.Status.Result).NotTo(BeNil())
		Expect(string(task.Status.Result.Raw)).To(Equal(result))
	})

	It("completes without a result when the agent returns null", func(ctx SpecContext) {
		task := submit(ctx, swarm, "null", taskOrder{Result: "null"})
		Eventually(phaseOf(ns, "null")).WithContext(ctx).Should(Equal(v1alpha1.TaskCompleted))
		Expect(api.Get(ctx, client.ObjectKeyFromObject(task), task)).To(Succeed())
		Expect(task.Status.Result).To(BeNil())
	})

	It("fails with ResultInvalid when the API server cannot store the result", func(ctx SpecContext) {
		task := submit(ctx, swarm, "huge", taskOrder{Result: `{"n": 1e400}`})
		Eventually(phaseOf(ns, "huge")).WithContext(ctx).Should(Equal(v1alpha1.TaskFailed))
		Expect(api.Get(ctx, client.ObjectKeyFromObject(task), task)).To(Succeed())
		Expect(task.Status).To(And(HaveField("Reason", string(v1alpha1.ReasonResultInvalid)), HaveField("Result", BeNil()),
			HaveField("Retries", BeZero())))
		submit(ctx, swarm, "after", taskOrder{})
		Eventually(phaseOf(ns, "after")).WithContext(ctx).Should(Equal(v1alpha1.TaskCompleted), "the agent is free again")
	})
})
