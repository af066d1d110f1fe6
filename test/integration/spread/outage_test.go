package spread

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// limitNode leaves room for few pods on a node.
func (s *soakTest) limitNode(ctx context.Context, _ *managedWorkload) {
	if node := s.randomNode(ctx); node != nil {
		s.setPodCapacity(ctx, node.Name, s.random.IntN(10))
	}
}

// setPodCapacity gives a node room for this many pods.
func (s *soakTest) setPodCapacity(ctx context.Context, name string, pods int) {
	GinkgoHelper()
	body := fmt.Sprintf(`{"status":{"allocatable":{"pods":"%d"},"capacity":{"pods":"%d"}}}`, pods, pods)
	Expect(api.Status().Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
		client.RawPatch(types.MergePatchType, []byte(body)))).To(Succeed())
}

// randomNode returns a node of the environment, nil if there is none.
func (s *soakTest) randomNode(ctx context.Context) *corev1.Node {
	GinkgoHelper()
	all := s.listNodes(ctx)
	if len(all) == 0 {
		return nil
	}
	return &all[s.random.IntN(len(all))]
}

func (s *soakTest) cordonOne(ctx context.Context, _ *managedWorkload) {
	if node := s.randomNode(ctx); node != nil {
		cordon(ctx, node.Name, true)
	}
}

func (s *soakTest) taintOne(ctx context.Context, _ *managedWorkload) {
	if node := s.randomNode(ctx); node != nil && !isTainted(*node) {
		taintNode(ctx, node.Name)
	}
}

func (s *soakTest) restoreOne(ctx context.Context, _ *managedWorkload) {
	if node := s.randomNode(ctx); node != nil {
		s.restore(ctx, node)
	}
}

// restore makes a node accept pods again.
func (s *soakTest) restore(ctx context.Context, node *corev1.Node) {
	GinkgoHelper()
	cordon(ctx, node.Name, false)
	s.setPodCapacity(ctx, node.Name, 250)
	left := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return t.Key != ours }) // other specs handle theirs
	text, err := json.Marshal(map[string]any{"spec": map[string]any{"taints": left}})
	Expect(err).NotTo(HaveOccurred())
	if len(left) < len(node.Spec.Taints) {
		patchNode(ctx, node.Name, types.MergePatchType, string(text))
	}
}

// listNodes are the nodes of the scene.
func (s *soakTest) listNodes(ctx context.Context) []corev1.Node {
	GinkgoHelper()
	list := &corev1.NodeList{}
	Expect(api.List(ctx, list, client.MatchingLabels{ours: s.namespace})).To(Succeed())
	return list.Items
}

// blockClass removes all room of a class in one of several ways.
func (s *soakTest) blockClass(ctx context.Context, _ *managedWorkload) {
	class, way := []string{spot, spot, onDemand}[s.random.IntN(3)], s.random.IntN(4)
	for _, node := range s.listNodes(ctx) {
		switch {
		case node.Labels[capacity] != class:
		case way == 0:
			cordon(ctx, node.Name, true)
		case way == 1 && !isTainted(node):
			taintNode(ctx, node.Name)
		case way == 2:
			remove(ctx, node.Name)
		case way == 3:
			s.setPodCapacity(ctx, node.Name, s.random.IntN(6))
		}
	}
}

func isTainted(node corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == disruptionTaint })
}

// restoreAll makes all nodes accept pods again.
func (s *soakTest) restoreAll(ctx context.Context, _ *managedWorkload) { s.healNodes(ctx) }

func (s *soakTest) relabelOne(ctx context.Context, _ *managedWorkload) {
	if node := s.randomNode(ctx); node != nil {
		class := []string{spot, onDemand}[s.random.IntN(2)]
		patchNode(ctx, node.Name, types.MergePatchType, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, capacity, class))
	}
}

func (s *soakTest) addNode(ctx context.Context, _ *managedWorkload) {
	s.extra++
	s.node(ctx, fmt.Sprintf("extra-%d", s.extra), withLabels(map[string]string{capacity: []string{spot, onDemand}[s.random.IntN(2)]}),
		s.labelProvisioned)
}

// labelProvisioned labels some nodes as created by a provisioner, which adds nodes when pods wait.
func (s *soakTest) labelProvisioned(node *corev1.Node) {
	if s.random.IntN(8) == 0 {
		node.Labels["karpenter.sh/nodepool"] = "any"
	}
}

func (s *soakTest) removeNode(ctx context.Context, _ *managedWorkload) {
	if node := s.randomNode(ctx); node != nil {
		remove(ctx, node.Name)
	}
}

// kill ends a replica without notice.
func (s *soakTest) kill(context.Context, *managedWorkload) {
	all := replicaFleet.listReplicas()
	if len(all) == 0 {
		return
	}
	one := all[s.random.IntN(len(all))]
	replicaFleet.stopRouting(one)
	s.interruptions = append(s.interruptions, time.Now())
	Eventually(one.session.Signal(syscall.SIGKILL)).Should(gexec.Exit())
}

// freezeReplica freezes a replica for a while. Half of the time the API server continues to call it.
func (s *soakTest) freezeReplica(context.Context, *managedWorkload) {
	all := replicaFleet.listReplicas()
	if len(all) == 0 || len(s.frozen) > 0 {
		return
	}
	victim := all[s.random.IntN(len(all))]
	if s.random.IntN(2) == 0 {
		replicaFleet.stopRouting(victim)
	}
	s.interruptions = append(s.interruptions, time.Now())
	victim.session.Signal(syscall.SIGSTOP)
	s.frozen = append(s.frozen, victim)
}

// unfreezeReplicas resumes frozen replicas. A replica has to run before it gets requests again.
func (s *soakTest) unfreezeReplicas(context.Context, *managedWorkload) {
	for _, one := range s.frozen {
		replicaFleet.stopRouting(one)
		one.session.Signal(syscall.SIGCONT)
		replicaFleet.lock.Lock()
		replicaFleet.replicas = append(replicaFleet.replicas, one)
		replicaFleet.lock.Unlock()
	}
	s.frozen, s.resumed = nil, slices.Concat(s.resumed, s.frozen)
}

// stopUnfrozen ends replicas that were frozen: one that led ends by itself when it finds out, which may be later.
func (s *soakTest) stopUnfrozen() {
	GinkgoHelper()
	for _, one := range s.resumed {
		replicaFleet.stopReplica(one)
	}
	s.resumed = nil
}

// startMissingReplica starts a replica if one is missing.
func (s *soakTest) startMissingReplica(ctx context.Context, _ *managedWorkload) {
	for _, one := range replicaFleet.listReplicas() {
		if one.session.ExitCode() >= 0 {
			replicaFleet.stopRouting(one)
		}
	}
	if len(replicaFleet.listReplicas())+len(s.frozen) < 3 {
		s.replicas = append(s.replicas, replicaFleet.startReplica(ctx))
	}
}

// healNodes makes all nodes schedulable, restores the first ones with their class, and removes the pods left on deleted nodes.
func (s *soakTest) healNodes(ctx context.Context) {
	GinkgoHelper()
	existing := map[string]bool{}
	for _, node := range s.listNodes(ctx) {
		existing[node.Name] = true
		s.restore(ctx, &node)
	}
	for _, class := range []string{onDemand, spot} {
		for _, zone := range zones {
			name := class + "-" + zone
			if !existing[s.nodeName(name)] {
				s.node(ctx, name, withLabels(map[string]string{capacity: class, corev1.LabelTopologyZone: zone}))
				existing[s.nodeName(name)] = true
			}
			patchNode(ctx, s.nodeName(name), types.MergePatchType, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, capacity, class))
		}
	}
	s.deletePodsOfGoneNodes(ctx, existing)
}

// deletePodsOfGoneNodes removes the terminating pods whose node is gone: Kubernetes does so after a minute.
func (s *soakTest) deletePodsOfGoneNodes(ctx context.Context, existing map[string]bool) {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(api.List(ctx, list, client.InNamespace(s.namespace))).To(Succeed())
	for n := range list.Items {
		if pod := &list.Items[n]; pod.Spec.NodeName != "" && !existing[pod.Spec.NodeName] {
			Expect(client.IgnoreNotFound(api.Delete(ctx, pod, client.GracePeriodSeconds(0)))).To(Succeed())
		}
	}
}
