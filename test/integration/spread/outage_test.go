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

// fill leaves room for few pods on a node.
func (s *soak) fill(ctx context.Context, _ *actor) {
	if node := s.some(ctx); node != nil {
		s.roomy(ctx, node.Name, s.dice.IntN(10))
	}
}

// roomy gives a node room for this many pods.
func (s *soak) roomy(ctx context.Context, name string, pods int) {
	GinkgoHelper()
	body := fmt.Sprintf(`{"status":{"allocatable":{"pods":"%d"},"capacity":{"pods":"%d"}}}`, pods, pods)
	Expect(api.Status().Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.MergePatchType, []byte(body)))).To(Succeed())
}

// some is a node of the scene, nil when there is none.
func (s *soak) some(ctx context.Context) *corev1.Node {
	GinkgoHelper()
	all := s.all(ctx)
	if len(all) == 0 {
		return nil
	}
	return &all[s.dice.IntN(len(all))]
}

func (s *soak) cordonOne(ctx context.Context, _ *actor) {
	if node := s.some(ctx); node != nil {
		cordon(ctx, node.Name, true)
	}
}

func (s *soak) warnOne(ctx context.Context, _ *actor) {
	if node := s.some(ctx); node != nil && !warned(*node) {
		warn(ctx, node.Name)
	}
}

func (s *soak) restoreOne(ctx context.Context, _ *actor) {
	if node := s.some(ctx); node != nil {
		s.restore(ctx, node)
	}
}

// restore has a node take pods again.
func (s *soak) restore(ctx context.Context, node *corev1.Node) {
	GinkgoHelper()
	cordon(ctx, node.Name, false)
	s.roomy(ctx, node.Name, 250)
	left := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return t.Key != ours }) // others see to theirs
	text, err := json.Marshal(map[string]any{"spec": map[string]any{"taints": left}})
	Expect(err).NotTo(HaveOccurred())
	if len(left) < len(node.Spec.Taints) {
		patchNode(ctx, node.Name, types.MergePatchType, string(text))
	}
}

// all are the nodes of the scene.
func (s *soak) all(ctx context.Context) []corev1.Node {
	GinkgoHelper()
	list := &corev1.NodeList{}
	Expect(api.List(ctx, list, client.MatchingLabels{ours: s.in})).To(Succeed())
	return list.Items
}

// outage takes all room of a class away, in one way or the other.
func (s *soak) outage(ctx context.Context, _ *actor) {
	class, way := []string{spot, spot, onDemand}[s.dice.IntN(3)], s.dice.IntN(4)
	for _, node := range s.all(ctx) {
		switch {
		case node.Labels[capacity] != class:
		case way == 0:
			cordon(ctx, node.Name, true)
		case way == 1 && !warned(node):
			warn(ctx, node.Name)
		case way == 2:
			remove(ctx, node.Name)
		case way == 3:
			s.roomy(ctx, node.Name, s.dice.IntN(6))
		}
	}
}

func warned(node corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == notice })
}

// comeBack has all nodes take pods again that do not.
func (s *soak) comeBack(ctx context.Context, _ *actor) { s.healNodes(ctx) }

func (s *soak) relabelOne(ctx context.Context, _ *actor) {
	if node := s.some(ctx); node != nil {
		class := []string{spot, onDemand}[s.dice.IntN(2)]
		patchNode(ctx, node.Name, types.MergePatchType, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, capacity, class))
	}
}

func (s *soak) addNode(ctx context.Context, _ *actor) {
	s.extra++
	s.node(ctx, fmt.Sprintf("extra-%d", s.extra), labelled(map[string]string{capacity: []string{spot, onDemand}[s.dice.IntN(2)]}), s.provisioned)
}

// provisioned labels some nodes as created by a provisioner, which adds nodes when pods wait.
func (s *soak) provisioned(node *corev1.Node) {
	if s.dice.IntN(8) == 0 {
		node.Labels["karpenter.sh/nodepool"] = "any"
	}
}

func (s *soak) removeNode(ctx context.Context, _ *actor) {
	if node := s.some(ctx); node != nil {
		remove(ctx, node.Name)
	}
}

// kill ends a replica without notice.
func (s *soak) kill(context.Context, *actor) {
	all := team.all()
	if len(all) == 0 {
		return
	}
	one := all[s.dice.IntN(len(all))]
	team.leave(one)
	s.interruptions = append(s.interruptions, time.Now())
	Eventually(one.session.Signal(syscall.SIGKILL)).Should(gexec.Exit())
}

// freeze stops a replica for a while. Half the time the API server goes on asking it.
func (s *soak) freeze(context.Context, *actor) {
	all := team.all()
	if len(all) == 0 || len(s.frozen) > 0 {
		return
	}
	one := all[s.dice.IntN(len(all))]
	if s.dice.IntN(2) == 0 {
		team.leave(one)
	}
	s.interruptions = append(s.interruptions, time.Now())
	one.session.Signal(syscall.SIGSTOP)
	s.frozen = append(s.frozen, one)
}

// thaw resumes frozen replicas. A replica has to run before it gets requests again.
func (s *soak) thaw(context.Context, *actor) {
	for _, one := range s.frozen {
		team.leave(one)
		one.session.Signal(syscall.SIGCONT)
		team.lock.Lock()
		team.replicas = append(team.replicas, one)
		team.lock.Unlock()
	}
	s.frozen, s.thawed = nil, slices.Concat(s.thawed, s.frozen)
}

// relieve ends replicas that were frozen: one that led ends by itself when it finds out, which may be later.
func (s *soak) relieve() {
	GinkgoHelper()
	for _, one := range s.thawed {
		team.end(one)
	}
	s.thawed = nil
}

// begin starts a replica if one is missing.
func (s *soak) begin(ctx context.Context, _ *actor) {
	for _, one := range team.all() {
		if one.session.ExitCode() >= 0 {
			team.leave(one)
		}
	}
	if len(team.all())+len(s.frozen) < 3 {
		s.crew = append(s.crew, team.begin(ctx))
	}
}

// healNodes makes all nodes schedulable, restores the first ones with their class, and removes the pods left on deleted nodes.
func (s *soak) healNodes(ctx context.Context) {
	GinkgoHelper()
	there := map[string]bool{}
	for _, node := range s.all(ctx) {
		there[node.Name] = true
		s.restore(ctx, &node)
	}
	for _, class := range []string{onDemand, spot} {
		for _, zone := range zones {
			name := class + "-" + zone
			if !there[s.on(name)] {
				s.node(ctx, name, labelled(map[string]string{capacity: class, corev1.LabelTopologyZone: zone}))
				there[s.on(name)] = true
			}
			patchNode(ctx, s.on(name), types.MergePatchType, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, capacity, class))
		}
	}
	s.bury(ctx, there)
}

// bury removes the terminating pods whose node is gone: Kubernetes does so after a minute.
func (s *soak) bury(ctx context.Context, there map[string]bool) {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(api.List(ctx, list, client.InNamespace(s.in))).To(Succeed())
	for n := range list.Items {
		if pod := &list.Items[n]; pod.Spec.NodeName != "" && !there[pod.Spec.NodeName] {
			Expect(client.IgnoreNotFound(api.Delete(ctx, pod, client.GracePeriodSeconds(0)))).To(Succeed())
		}
	}
}
