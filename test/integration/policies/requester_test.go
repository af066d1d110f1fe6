package policies

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// What the operator does for a Swarm, for a pool of StatefulSet w with replicas and two sources, and for a task.
var (
	forSwarm = []right{
		{verb: "create", resource: "pods"}, {verb: "create", group: "apps", resource: "statefulsets"},
		{verb: "create", resource: "services"}, {verb: "create", resource: "configmaps"},
	}
	forPool = []right{
		{verb: "create", resource: "configmaps"}, {verb: "update", resource: "configmaps", names: []string{"w-config"}},
		{verb: "patch", resource: "pods"}, {verb: "create", resource: "pods/eviction"},
		{verb: "patch", group: "apps", resource: "statefulsets/scale", names: []string{"w"}},
		{verb: "get", resource: "configmaps", names: []string{"jobs-0", "jobs-1"}},
	}
	forTask = []right{{verb: "get", resource: "configmaps", names: []string{"input"}}}
)

func swarmIn(ns string) *v1alpha1.Swarm {
	return &v1alpha1.Swarm{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ants"},
		Spec: v1alpha1.SwarmSpec{Replicas: new(int32(1)), MaxAgents: 2, Agents: []v1alpha1.AgentType{{
			Type: "worker", Slots: 1, Template: template(),
		}}},
	}
}

// poolIn is a pool that makes the operator use all that a pool can, with this many sources.
func poolIn(ns string, sources int) *v1alpha1.WorkerPool {
	pool := &v1alpha1.WorkerPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "streams"},
		Spec: v1alpha1.WorkerPoolSpec{Workers: v1alpha1.WorkloadReference{Kind: v1alpha1.WorkloadStatefulSet, Name: "w"},
			Replicas: new(int32(2))},
	}
	for n := range sources {
		key := v1alpha1.ConfigMapKey{Name: fmt.Sprintf("jobs-%d", n), Key: "jobs"}
		pool.Spec.JobsFrom = append(pool.Spec.JobsFrom, v1alpha1.JobSource{ConfigMapKeyRef: key})
	}
	return pool
}

func taskIn(ns string) *v1alpha1.Task {
	return &v1alpha1.Task{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "report"},
		Spec: v1alpha1.TaskSpec{
			SwarmRef:    v1alpha1.SwarmReference{Name: "ants"},
			PayloadFrom: &v1alpha1.PayloadSource{ConfigMapKeyRef: v1alpha1.ConfigMapKey{Name: "input", Key: "json"}},
		},
	}
}

// withoutNth is all rights but one.
func withoutNth(rights []right, n int) []right { return slices.Delete(slices.Clone(rights), n, n+1) }

var _ = Describe("Who asks", func() {
	var ns string

	BeforeEach(func(ctx SpecContext) { ns = namespace(ctx) })

	DescribeTable("is refused without the right that the operator would use",
		func(ctx SpecContext, object func(string) client.Object, rights []right, why string) {
			err := newAuthor(ctx, ns, rights...).Create(ctx, object(ns), client.DryRunAll)
			Expect(err).To(MatchError(And(ContainSubstring("requester.swarm.io"), ContainSubstring(why), ContainSubstring(ns))))
		},
		Entry("for a Swarm, to create pods [X04/user-refused]", swarm, withoutNth(forSwarm, 0), "may not create pods"),
		Entry("for a Swarm, to create StatefulSets", swarm, withoutNth(forSwarm, 1), "may not create statefulsets"),
		Entry("for a Swarm, to create Services", swarm, withoutNth(forSwarm, 2), "may not create services"),
		Entry("for a Swarm, to create ConfigMaps", swarm, withoutNth(forSwarm, 3), "may not create configmaps"),
		Entry("for a pool, to create ConfigMaps", pool, withoutNth(forPool, 0), "may not create configmaps"),
		Entry("for a pool, to update its ConfigMap", pool, withoutNth(forPool, 1), "may not update configmap w-config"),
		Entry("for a pool, to patch pods", pool, withoutNth(forPool, 2), "may not patch pods"),
		Entry("for a pool, to evict pods", pool, withoutNth(forPool, 3), "may not create pods/eviction"),
		Entry("for a pool with replicas, to scale its workload", pool, withoutNth(forPool, 4), "may not patch statefulsets/scale of w"),
		Entry("for a pool with replicas, to scale a workload of that kind",
			poolOfDeployment, forPool, "may not patch deployments/scale of w"),
		Entry("for a pool, to get each ConfigMap that it reads",
			poolOfMany, forPool, "may not get each of the configmaps jobs-0, jobs-1, jobs-2"),
		Entry("for a pool, to update the ConfigMap that it names", poolNaming, forPool, "may not update configmap other"),
		Entry("for a pool with a ConfigMap for each worker, to update any", poolPerWorker, forPool, "may not update configmaps"),
		Entry("for a task, to get the ConfigMap of its payload", task, withoutNth(forTask, 0), "may not get each of the configmaps input"),
		Entry("for a task, to get the ConfigMap of its items", taskOfItems, forTask, "may not get each of the configmaps input, items"),
	)

	DescribeTable("passes with just the rights that the operator would use",
		func(ctx SpecContext, object func(string) client.Object, rights []right) {
			Expect(newAuthor(ctx, ns, rights...).Create(ctx, object(ns), client.DryRunAll)).To(Succeed())
		},
		Entry("for a Swarm", swarm, forSwarm),
		Entry("for a pool, of the names alone", pool, forPool),
		Entry("for a pool, to update scale instead of patching it",
			pool, append(withoutNth(forPool, 4), right{verb: "update", group: "apps", resource: "statefulsets/scale"})),
		Entry("for a pool without replicas, which scales nothing", poolOfAnySize, withoutNth(forPool, 4)),
		Entry("for a pool of 16 ConfigMaps, which the cost of the policy allows", poolOf16, append(withoutNth(forPool, 5), readSources(16))),
		Entry("for a pool, to get all ConfigMaps", poolOf16, append(withoutNth(forPool, 5), right{verb: "get", resource: "configmaps"})),
		Entry("for a task", task, forTask),
		Entry("for a task with its payload in itself", taskOfNothing, nil),
	)

	It("is judged again when the spec changes, and not before", func(ctx SpecContext) {
		stored := swarmIn(ns)
		Expect(api.Create(ctx, stored)).To(Succeed())
		poor := newAuthor(ctx, ns)
		Expect(poor.Patch(ctx, stored.DeepCopy(), merge(`{"metadata": {"labels": {"team": "a"}, "annotations": {"swarm.io/paused": "true"}}}`))).
			To(Succeed())
		Expect(poor.Patch(ctx, stored.DeepCopy(), merge(`{"spec": {"maxAgents": 3}}`))).To(MatchError(ContainSubstring("may not create pods")))
		Expect(newAuthor(ctx, ns, forSwarm...).Patch(ctx, stored.DeepCopy(), merge(`{"spec": {"maxAgents": 3}}`))).To(Succeed())
	})

	It("may scale and report with the rights to these alone, as an autoscaler does", func(ctx SpecContext) {
		stored := poolIn(ns, 0)
		Expect(api.Create(ctx, stored)).To(Succeed())
		scaler := holder(ctx, ns, right{verb: "patch", group: "swarm.io", resource: "workerpools/scale"},
			right{verb: "patch", group: "swarm.io", resource: "workerpools/status"})
		size := client.WithSubResourceBody(&autoscalingv1.Scale{})
		Expect(scaler.SubResource("scale").Patch(ctx, stored.DeepCopy(), merge(`{"spec": {"replicas": 5}}`), size)).To(Succeed())
		Expect(scaler.Status().Patch(ctx, stored.DeepCopy(), merge(`{"status": {"size": 5}}`))).To(Succeed())
		Expect(api.Get(ctx, client.ObjectKeyFromObject(stored), stored)).To(Succeed())
		Expect(*stored.Spec.Replicas).To(BeEquivalentTo(5))
	})

	It("is not the garbage collector, which takes owners out of objects and deletes them", func(ctx SpecContext) {
		awaitCollector(ctx, ns)
		left, gone := poolIn(ns, 1), poolIn(ns, 1)
		gone.Name = "gone"
		for pool, policy := range map[*v1alpha1.WorkerPool]metav1.DeletionPropagation{left: metav1.DeletePropagationOrphan,
			gone: metav1.DeletePropagationForeground} {
			owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "owner-of-" + pool.Name}}
			Expect(api.Create(ctx, owner)).To(Succeed())
			pool.Finalizers = []string{"policies.suite.swarm.io/stay"}
			pool.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID,
				BlockOwnerDeletion: new(true)}}
			Expect(api.Create(ctx, pool)).To(Succeed())
			Expect(api.Delete(ctx, owner, client.PropagationPolicy(policy))).To(Succeed())
		}
		Eventually(func(g Gomega) {
			g.Expect(api.Get(ctx, client.ObjectKeyFromObject(left), left)).To(Succeed())
			g.Expect(api.Get(ctx, client.ObjectKeyFromObject(gone), gone)).To(Succeed())
			g.Expect(left.OwnerReferences).To(BeEmpty())
			g.Expect(gone.DeletionTimestamp).NotTo(BeNil())
		}).WithContext(ctx).Should(Succeed())
		for _, pool := range []*v1alpha1.WorkerPool{left, gone} {
			Expect(newAuthor(ctx, ns).Patch(ctx, pool.DeepCopy(), merge(`{"metadata": {"finalizers": null}}`))).To(Succeed())
		}
	})
})

// awaitCollector waits until the garbage collector knows WorkerPools, which it discovers some time after their CRD is installed. If an
// owner is deleted before that, its dependents stay.
func awaitCollector(ctx context.Context, ns string) {
	GinkgoHelper()
	orphan := poolIn(ns, 0)
	orphan.Name, orphan.OwnerReferences = "orphan", []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "missing",
		UID: "missing"}}
	createAsUser(ctx, orphan)
	Eventually(isDeleted).WithContext(ctx).WithArguments(orphan).Should(BeTrue())
}

func merge(text string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(text)) }

func swarm(ns string) client.Object { return swarmIn(ns) }
func pool(ns string) client.Object  { return poolIn(ns, 2) }
func task(ns string) client.Object  { return taskIn(ns) }

func poolOfMany(ns string) client.Object { return poolIn(ns, 3) }
func poolOf16(ns string) client.Object   { return poolIn(ns, 16) }

func poolOfAnySize(ns string) client.Object {
	made := poolIn(ns, 2)
	made.Spec.Replicas = nil
	return made
}

func poolOfDeployment(ns string) client.Object {
	made := poolIn(ns, 2)
	made.Spec.Workers.Kind = v1alpha1.WorkloadDeployment
	return made
}

func poolNaming(ns string) client.Object {
	made := poolIn(ns, 2)
	made.Spec.Config.Name = "other"
	return made
}

func poolPerWorker(ns string) client.Object {
	made := poolIn(ns, 2)
	made.Spec.Config.Layout = v1alpha1.LayoutPerWorker
	return made
}

func taskOfItems(ns string) client.Object {
	made := taskIn(ns)
	made.Spec.Items = &v1alpha1.TaskItems{ConfigMapKeyRef: &v1alpha1.ConfigMapKey{Name: "items", Key: "list"}}
	return made
}

func taskOfNothing(ns string) client.Object {
	made := taskIn(ns)
	made.Spec.PayloadFrom, made.Spec.Payload = nil, &apiextensionsv1.JSON{Raw: []byte(`{}`)}
	return made
}

// readSources is the right to read the sources of a pool.
func readSources(sources int) right {
	all := right{verb: "get", resource: "configmaps"}
	for n := range sources {
		all.names = append(all.names, fmt.Sprintf("jobs-%d", n))
	}
	return all
}

// createAsUser creates an object as the user of the cluster.
func createAsUser[T client.Object](ctx context.Context, object T) T {
	GinkgoHelper()
	Expect(api.Create(ctx, object)).To(Succeed())
	return object
}
