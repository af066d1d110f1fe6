package hostile

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// Each spec uses up a budget of one tenant, and checks that the others still have theirs.
var _ = Describe("Budgets", Ordered, Serial, func() {
	const most, flood = 50, 200
	var s *environment

	BeforeAll(func(ctx SpecContext) {
		s = newEnvironment(ctx, "SWARM_LIMITS_TASKS_PER_NAMESPACE="+strconv.Itoa(most), "SWARM_LIMITS_CACHE_BYTES_PER_NAMESPACE=1Mi")
	})

	It("are spent by the tasks of a namespace, and honest tasks run beside those that wait", func(ctx SpecContext) {
		for n := range flood {
			Expect(s.tenant.Create(ctx, newTask(s.tenantSwarm, fmt.Sprintf("waits-%03d", n), `{}`))).To(Succeed())
		}
		Eventually(s.waiting).WithContext(ctx).WithArguments("NamespaceLimitReached").Should(BeNumerically(">", 0))
		Eventually(s.leader.limitRefusals).WithContext(ctx).WithArguments("tasksPerNamespace").Should(BeNumerically(">", 0))
		s.work(ctx, "beside", s.honest...)
		s.expectJournal()
	})

	It("are spent by large objects of a namespace, which get what they ask for all the same", func(ctx SpecContext) {
		var bulky []*v1alpha1.Swarm
		for n := range 12 {
			bulky = append(bulky, s.createBulky(ctx, n))
		}
		Eventually(s.leader.limitRefusals).WithContext(ctx).WithArguments("cacheBytesPerNamespace").Should(BeNumerically(">", 0))
		s.work(ctx, "bulk", s.honest...)
		s.expectJournal()
		for _, swarm := range bulky {
			Expect(api.Patch(ctx, swarm, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":1}}`)))).To(Succeed())
			Eventually(running).WithContext(ctx).WithArguments(swarm.Namespace, swarm.Name).Should(Equal(1))
		}
	})

	It("are spent by connections from one address, and an agent that is new finds its place", func(ctx SpecContext) {
		s.runUnderAttack(ctx, func() {
			Eventually(s.leader.limitRefusals).WithContext(ctx).WithArguments("connectionsPerSource").Should(BeNumerically(">", 0))
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.honest[0].Namespace, Name: honest + "-worker-0"}}
			Expect(api.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			before := pod.UID
			Expect(api.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
			Eventually(linkedPod).WithContext(ctx).WithArguments(pod.Namespace, pod.Name).Should(And(Not(BeEmpty()), Not(Equal(string(before)))))
		}, "open connections")
	})
})

// createBulky creates a Swarm of the tenant whose template has more than half of the bytes that may be cached of a namespace.
func (s *environment) createBulky(ctx context.Context, n int) *v1alpha1.Swarm {
	GinkgoHelper()
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "agent", Image: "example.test/agent:1", Env: []corev1.EnvVar{{Name: "BULK", Value: strings.Repeat("x", 600<<10)}},
	}}}}
	swarm := &v1alpha1.Swarm{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.tenantNamespace, Name: fmt.Sprintf("bulky-%02d", n)},
		Spec: v1alpha1.SwarmSpec{Replicas: new(int32(0)), MaxAgents: 1,
			Agents: []v1alpha1.AgentType{{Type: "worker", Slots: 1, Template: template}}},
	}
	Expect(s.tenant.Create(ctx, swarm)).To(Succeed())
	return swarm
}

// linkedPod returns the UID of the pod by which an agent is linked.
func linkedPod(ctx context.Context, ns, name string) (string, error) {
	agent := &v1alpha1.Agent{}
	err := api.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, agent)
	return agent.Status.LinkedPodUID, err
}

// waiting counts the tenant's tasks that wait for a reason.
func (s *environment) waiting(ctx context.Context, reason string) (count int, err error) {
	tasks := &v1alpha1.TaskList{}
	err = api.List(ctx, tasks, client.InNamespace(s.tenantNamespace))
	for _, task := range tasks.Items {
		if task.Status.Reason == reason {
			count++
		}
	}
	return count, err
}

// limitRefusals returns how often the operator has refused something because a limit was reached.
func (l *leader) limitRefusals(ctx context.Context, limit string) (float64, error) {
	_, text, err := testcluster.HTTPGet(ctx, "http://127.0.0.1:"+l.metricsPort+"/metrics")
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, `swarm_limit_refused_total{limit="`+limit+`"} `); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, err
}
