package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/history"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

var _ = Describe("A Swarm", Serial, func() {
	var ns string
	var swarm *v1alpha1.Swarm

	BeforeEach(func(ctx SpecContext) {
		ns = namespace(ctx, nil)
		startOperator("SWARM_CONTROLLER_RESYNC_PERIOD=1h") // what happens is caused by watches
		swarm = sample(ctx, ns)
		Eventually(agents).WithContext(ctx).WithArguments(ns).Should(ConsistOf(
			"research-coordinator-0", "research-coder-0", "research-coder-1", "research-coder-2", "research-analyst-0", "research-analyst-1"))
	})

	It("[S10/owner-references] gets a workload for each type, owned by it like all of its objects, and says how far it is",
		func(ctx SpecContext) {
			workloads := &appsv1.StatefulSetList{}
			Expect(api.List(ctx, workloads, client.InNamespace(ns))).To(Succeed())
			Expect(workloads.Items).To(HaveLen(3))
			owned := ownedObjects(ctx, ns, v1alpha1.LabelSwarm)
			Expect(owned).To(HaveLen(3+6+2), "workloads, Agents, the Service and the ConfigMap")
			for _, object := range owned {
				Expect(metav1.GetControllerOf(object)).To(HaveValue(And(
					HaveField("Kind", "Swarm"), HaveField("UID", swarm.UID), HaveField("BlockOwnerDeletion", HaveValue(BeTrue())))), object.GetName())
			}
			Eventually(condition).WithContext(ctx).WithArguments(swarm).Should(Equal("0 of 6 agents are ready for work, 6 have a ready pod"))
		})

	It("[S06/children] has Agents of its own, which name it, their type and what that offers", func(ctx SpecContext) {
		list := &v1alpha1.AgentList{}
		Expect(api.List(ctx, list, client.InNamespace(ns))).To(Succeed())
		Expect(list.Items).To(HaveLen(6))
		offered := map[string][]string{"coordinator": {"plan", "review"}, "coder": {"go", "python"}, "analyst": {"python", "statistics"}}
		for _, agent := range list.Items {
			kind, _, _ := strings.Cut(strings.TrimPrefix(agent.Name, "research-"), "-")
			Expect(metav1.IsControlledBy(&agent, swarm)).To(BeTrue(), agent.Name)
			Expect(agent.Spec).To(And(
				HaveField("SwarmRef.Name", "research"), HaveField("Type", kind), HaveField("Capabilities", offered[kind])), agent.Name)
		}
	})

	It("[S20/config-equals-spec] is described by its ConfigMap as its spec says, whatever the spec changes to", func(ctx SpecContext) {
		Expect(publishedDescription(ctx, ns)).To(MatchJSON(`{"swarm": "research", "topology": "hierarchical", "agents": ["research-coordinator-0",
			"research-coder-0", "research-coder-1", "research-coder-2", "research-analyst-0", "research-analyst-1"]}`))
		change(ctx, swarm, func() { swarm.Spec.Topology, swarm.Spec.Replicas = v1alpha1.TopologyStar, new(int32(3)) })
		Eventually(publishedDescription).WithContext(ctx).WithArguments(ns).Should(MatchJSON(
			`{"swarm": "research", "topology": "star", "agents": ["research-coordinator-0", "research-coder-0", "research-analyst-0"]}`))
	})

	It("[S03/never-exceeds, S03/highest-ordinals-removed] never has more agents than maxAgents, and loses the last ones when that is lowered",
		func(ctx SpecContext) {
			const most = 12
			numbers := []*history.History[int]{
				history.WatchAll(ctx, api, &v1alpha1.AgentList{}, ns, func(all map[string]*v1alpha1.Agent) int { return len(all) }),
				history.WatchAll(ctx, api, &corev1.PodList{}, ns, func(all map[string]*corev1.Pod) int { return len(all) }),
				history.WatchAll(ctx, api, &appsv1.StatefulSetList{}, ns, desiredReplicas),
			}
			change(ctx, swarm, func() { swarm.Spec.Replicas, swarm.Spec.Strategy = new(int32(50)), v1alpha1.SwarmBalanced })
			for _, number := range numbers {
				Eventually(number.List).WithContext(ctx).Should(ContainElement(most))
			}
			Eventually(condition).WithContext(ctx).WithArguments(swarm).Should(Equal("0 of 12 agents are ready for work, 12 have a ready pod"))
			for _, number := range numbers {
				Consistently(number.List).WithContext(ctx).WithTimeout(time.Second).Should(HaveEach(BeNumerically("<=", most)))
			}
			change(ctx, swarm, func() { swarm.Spec.MaxAgents = 3 })
			Eventually(agents).WithContext(ctx).WithArguments(ns).Should(ConsistOf("research-coordinator-0", "research-coder-0",
				"research-analyst-0"))
			Eventually(pods).WithContext(ctx).WithArguments(ns).Should(ConsistOf("research-coordinator-0", "research-coder-0", "research-analyst-0"))
		})

	It("[S18/agent-recreated] restores at once what a user deletes or changes", func(ctx SpecContext) {
		agent := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "research-coder-1"}}
		Expect(api.Delete(ctx, agent)).To(Succeed())
		began := time.Now()
		Eventually(agents).WithContext(ctx).WithArguments(ns).WithTimeout(10*time.Second).Should(ContainElement(agent.Name),
			"and not when everything is looked at again, every 30 s")
		AddReportEntry("a deleted Agent is there again after", ReportEntryVisibilityAlways, fmt.Sprintf("%.1f s", time.Since(began).Seconds()))

		workload := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "research-coder"}}
		Expect(api.Get(ctx, client.ObjectKeyFromObject(workload), workload)).To(Succeed())
		change(ctx, workload, func() { workload.Spec.Replicas = new(int32(9)) })
		Eventually(func(ctx context.Context) (int32, error) {
			return *workload.Spec.Replicas, api.Get(ctx, client.ObjectKeyFromObject(workload), workload)
		}).WithContext(ctx).Should(BeEquivalentTo(3))
	})

	It("is left in peace once it is as it should be", func(ctx SpecContext) {
		Eventually(condition).WithContext(ctx).WithArguments(swarm).Should(ContainSubstring("6 have a ready pod"))
		Consistently(versions).WithContext(ctx).WithArguments(ns).WithTimeout(3 * time.Second).Should(Equal(versions(ctx, ns)))
	})

	It("[S10/cascade] takes everything with it when it goes", func(ctx SpecContext) {
		Expect(api.Delete(ctx, swarm)).To(Succeed())
		Eventually(func(ctx context.Context) bool { return isDeleted(ctx, swarm) }).WithContext(ctx).Should(BeTrue())
		Eventually(ownedObjects).WithContext(ctx).WithArguments(ns, v1alpha1.LabelSwarm).Should(BeEmpty())
		Eventually(pods).WithContext(ctx).WithArguments(ns).Should(BeEmpty())
	})

	It("[S10/claims-deleted] [S10/claims-retained] leaves the volume claims that it is told to retain, and no others", func(ctx SpecContext) {
		vault := newTeam(ns, "vault", 2)
		vault.Spec.Agents = []v1alpha1.AgentType{storedAgentType("keeper", v1alpha1.StorageRetain),
			storedAgentType("loser", v1alpha1.StorageDelete)}
		Expect(api.Create(ctx, vault)).To(Succeed())
		Eventually(claims).WithContext(ctx).WithArguments(ns).Should(ConsistOf("state-vault-keeper-0", "state-vault-loser-0"))
		Expect(api.Delete(ctx, vault)).To(Succeed())
		Eventually(claims).WithContext(ctx).WithArguments(ns).Should(ConsistOf("state-vault-keeper-0"))
		Eventually(ownedObjects).WithContext(ctx).WithArguments(ns, v1alpha1.LabelSwarm+"=vault").Should(BeEmpty())
		Consistently(claims).WithContext(ctx).WithArguments(ns).WithTimeout(time.Second).Should(ConsistOf("state-vault-keeper-0"))
		kept := objectAt(&corev1.PersistentVolumeClaim{}, ns, "state-vault-keeper-0")
		Expect(isDeleted(ctx, kept)).To(BeFalse())
		Expect(kept.OwnerReferences).To(BeEmpty(), "nothing is there that would take it along")
	})
})

var _ = Describe("The program", Serial, func() {
	It("[R08] refuses a configuration that cannot work, with the reason", func() {
		session := startOperator("SWARM_CONTROLLER_RESYNC_PERIOD=1s")
		Eventually(session).Should(gexec.Exit(1))
		Expect(session.Err).To(gbytes.Say("controller.resyncPeriod is 1s: the minimum is 5s"))
	})

	It("keeps to the namespaces that it was given, and follows their labels", func(ctx SpecContext) {
		ns := namespace(ctx, map[string]string{"team": "a"})
		out := namespace(ctx, map[string]string{"team": "b"})
		startOperator("SWARM_CONTROLLER_NAMESPACE_SELECTOR={matchLabels: {team: a}}")
		sample(ctx, ns)
		sample(ctx, out)
		Eventually(agents).WithContext(ctx).WithArguments(ns).Should(HaveLen(6))
		Consistently(agents).WithContext(ctx).WithArguments(out).WithTimeout(time.Second).Should(BeEmpty())
		other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: out}}
		Expect(api.Get(ctx, client.ObjectKeyFromObject(other), other)).To(Succeed())
		change(ctx, other, func() { other.Labels["team"] = "a" })
		Eventually(agents).WithContext(ctx).WithArguments(out).Should(HaveLen(6))
	})

	It("stops on a signal, and lets the next one lead at once", func(ctx SpecContext) {
		first := startOperator()
		Eventually(first.Err).Should(gbytes.Say("Successfully acquired lease"))
		holders := history.Watch(ctx, api, &coordinationv1.LeaseList{}, objectAt(&coordinationv1.Lease{}, system, "swarm-operator"), holderOf)
		former, err := leaseHolder(ctx, system)
		Expect(err).NotTo(HaveOccurred())
		second := startOperator("SWARM_LINK_PORT=" + ports.Free())
		Eventually(second.Err).Should(gbytes.Say("caches synced"))
		began := time.Now()
		Eventually(first.Terminate()).Should(gexec.Exit(0))
		Eventually(second.Err).Should(gbytes.Say("Successfully acquired lease"))
		AddReportEntry("a stopped leader is followed after", ReportEntryVisibilityAlways, fmt.Sprintf("%.1f s", time.Since(began).Seconds()))
		next, err := leaseHolder(ctx, system)
		Expect(err).NotTo(HaveOccurred())
		Eventually(holders.List).Should(HaveExactElements(former, "", next), "the Lease was released, and did not have to expire")
	})
})

// change retries its write on conflicts.
func change(ctx context.Context, object client.Object, edit func()) {
	GinkgoHelper()
	Eventually(func() error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		edit()
		return api.Update(ctx, object)
	}).Should(Succeed())
}

// condition is the readiness condition of a Swarm.
func condition(ctx context.Context, swarm *v1alpha1.Swarm) (string, error) {
	err := api.Get(ctx, client.ObjectKeyFromObject(swarm), swarm)
	for _, one := range swarm.Status.Conditions {
		if one.Type == v1alpha1.ConditionReady {
			return one.Message, err
		}
	}
	return "", err
}

func pods(ctx context.Context, ns string) ([]string, error) {
	list := &corev1.PodList{}
	err := api.List(ctx, list, client.InNamespace(ns))
	names := make([]string, 0, len(list.Items))
	for _, pod := range list.Items {
		names = append(names, pod.Name)
	}
	return names, err
}

// storedAgentType is a type with a volume for each agent.
func storedAgentType(kind string, retention v1alpha1.StorageRetention) v1alpha1.AgentType {
	return v1alpha1.AgentType{
		Type: kind, Slots: 1, Template: agentTemplate(),
		Storage: &v1alpha1.AgentStorage{Size: resource.MustParse("16Mi"), Retention: retention},
	}
}

// desiredReplicas is the number of pods that all workloads together should have.
func desiredReplicas(workloads map[string]*appsv1.StatefulSet) int {
	sum := 0
	for _, workload := range workloads {
		sum += int(*workload.Spec.Replicas)
	}
	return sum
}

func claims(ctx context.Context, ns string) ([]string, error) {
	list := &corev1.PersistentVolumeClaimList{}
	err := api.List(ctx, list, client.InNamespace(ns))
	var names []string
	for _, claim := range list.Items {
		names = append(names, claim.Name)
	}
	return names, err
}

// publishedDescription is the description in the swarm's ConfigMap.
func publishedDescription(ctx context.Context, ns string) (string, error) {
	config := objectAt(&corev1.ConfigMap{}, ns, "research-config")
	err := api.Get(ctx, client.ObjectKeyFromObject(config), config)
	return config.Data["swarm.json"], err
}

// ownedObjects are all objects that operators make for swarms, as far as their labels match.
func ownedObjects(ctx context.Context, ns, selector string) []client.Object {
	GinkgoHelper()
	var objects []client.Object
	for _, list := range []client.ObjectList{&v1alpha1.AgentList{}, &appsv1.StatefulSetList{}, &corev1.ServiceList{},
		&corev1.ConfigMapList{}} {
		Expect(api.List(ctx, list, client.InNamespace(ns), &client.ListOptions{Raw: &metav1.ListOptions{LabelSelector: selector}})).To(Succeed())
		Expect(meta.EachListItem(list, func(item runtime.Object) error {
			objects = append(objects, item.(client.Object))
			return nil
		})).To(Succeed())
	}
	return objects
}

// versions are the resource versions of everything that the operator writes.
func versions(ctx context.Context, ns string) []string {
	var result []string
	for _, list := range []client.ObjectList{&v1alpha1.SwarmList{}, &v1alpha1.AgentList{}, &appsv1.StatefulSetList{}, &corev1.ServiceList{},
		&corev1.ConfigMapList{}} {
		if err := api.List(ctx, list, client.InNamespace(ns)); err != nil {
			return []string{err.Error()}
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			result = append(result, fmt.Sprintf("%T %s %s", object, object.GetName(), object.GetResourceVersion()))
			return nil
		})
	}
	return result
}
