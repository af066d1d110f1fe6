package spread

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// A mischief is something that may happen to a cluster at any time. How often is up to its weight.
type mischief struct {
	name   string
	weight int
	befall func(*soak, context.Context, *actor)
}

var mischiefs = []mischief{
	{"scale", 8, (*soak).rescale},
	{"reannotate", 6, (*soak).reannotate},
	{"opt out", 2, (*soak).optOut},
	{"break", 2, (*soak).breakSetting},
	{"override", 1, (*soak).override},
	{"windows", 1, (*soak).closeWindows},
	{"roll", 4, (*soak).roll},
	{"pause", 2, (*soak).pause},
	{"delete pods", 5, (*soak).deletePods},
	{"sicken pods", 3, (*soak).sicken},
	{"fail pods", 2, (*soak).failPods},
	{"budget", 2, (*soak).rebudget},
	{"namespace", 1, (*soak).outOfScope},
	{"namespace back", 2, (*soak).intoScope},
	{"fill", 2, (*soak).fill},
	{"recreate", 2, (*soak).recreate},
	{"dry run", 3, (*soak).dryRun},
	{"cordon", 4, (*soak).cordonOne},
	{"uncordon", 4, (*soak).restoreOne},
	{"warn", 3, (*soak).warnOne},
	{"relabel", 2, (*soak).relabelOne},
	{"add node", 2, (*soak).addNode},
	{"remove node", 2, (*soak).removeNode},
	{"outage", 3, (*soak).outage},
	{"return", 3, (*soak).comeBack},
	{"kill", 1, (*soak).kill},
	{"freeze", 1, (*soak).freeze},
	{"thaw", 2, (*soak).thaw},
	{"begin", 2, (*soak).begin},
}

// harm has something happen, and a moment pass.
func (s *soak) harm(ctx context.Context) {
	GinkgoHelper()
	total := 0
	for _, one := range mischiefs {
		total += one.weight
	}
	roll := s.dice.IntN(total)
	for _, one := range mischiefs {
		if roll -= one.weight; roll < 0 {
			victim := s.cast[s.dice.IntN(len(s.cast))]
			GinkgoWriter.Printf("HARM %s %s %s\n", time.Now().Format("15:04:05.000"), one.name, victim.GetName())
			one.befall(s, ctx, victim)
			break
		}
	}
	select { // how often things go wrong: nothing is waited for
	case <-ctx.Done():
	case <-time.After(time.Duration(s.dice.IntN(700)) * time.Millisecond):
	}
}

func (s *soak) rescale(ctx context.Context, one *actor) {
	one.size = s.dice.IntN(13)
	if s.dice.IntN(6) == 0 {
		one.size = s.dice.IntN(31)
	}
	one.scale(ctx, one.size)
	one.note()
}

func (s *soak) spreads(one *actor) bool { return slices.Index(s.cast, one) < 10 }

func (s *soak) reannotate(ctx context.Context, one *actor) {
	if !s.spreads(one) {
		return
	}
	one.managed, one.floor, one.share = true, s.dice.IntN(6), 10*s.dice.IntN(11)
	one.opt(ctx, strconv.Itoa(one.floor), strconv.Itoa(one.share))
	one.note()
}

func (s *soak) optOut(ctx context.Context, one *actor) {
	one.annotate(ctx, map[string]any{spreads(v1alpha1.SpreadMode): nil})
	one.managed = false
	one.note()
}

func (s *soak) breakSetting(ctx context.Context, one *actor) {
	one.annotate(ctx, map[string]any{spreads(v1alpha1.SpreadSpotPercentage): "many"})
}

func (s *soak) override(ctx context.Context, one *actor) {
	one.annotate(ctx, map[string]any{spreads(v1alpha1.SpreadPDBOverride): "true"})
	one.overrides = true
	one.note()
}

func (s *soak) closeWindows(ctx context.Context, one *actor) {
	one.annotate(ctx, map[string]any{spreads(v1alpha1.SpreadWindows): "0 0 29 2 * for 1m"})
}

func (s *soak) roll(ctx context.Context, one *actor) {
	one.patch(ctx, rolled(strconv.Itoa(s.dice.IntN(4)))) // also back to one that was
}

// rolled is what makes a template another.
func rolled(to string) any {
	return map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"roll": to}}}}}
}

func (s *soak) pause(ctx context.Context, one *actor) {
	if one.kind == v1alpha1.WorkloadDeployment {
		one.patch(ctx, map[string]any{"spec": map[string]any{"paused": s.dice.IntN(2) == 0}})
	}
}

func (s *soak) deletePods(ctx context.Context, one *actor) {
	GinkgoHelper()
	pods, err := s.pods(ctx, one.GetName())
	Expect(err).NotTo(HaveOccurred())
	for range min(len(pods), 1+s.dice.IntN(3)) {
		Expect(client.IgnoreNotFound(api.Delete(ctx, &pods[s.dice.IntN(len(pods))]))).To(Succeed())
	}
}

// sicken has a pod not be Ready until it is healed.
func (s *soak) sicken(ctx context.Context, one *actor) {
	GinkgoHelper()
	pods, err := s.pods(ctx, one.GetName())
	Expect(err).NotTo(HaveOccurred())
	if len(pods) > 0 {
		s.declare(ctx, &pods[s.dice.IntN(len(pods))], corev1.ConditionFalse)
	}
}

// declare sets whether a pod is Ready.
func (s *soak) declare(ctx context.Context, pod *corev1.Pod, ready corev1.ConditionStatus) {
	GinkgoHelper()
	for n := range pod.Status.Conditions {
		if pod.Status.Conditions[n].Type == corev1.PodReady && pod.DeletionTimestamp == nil {
			body := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, ready)
			Expect(client.IgnoreNotFound(api.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, []byte(body))))).To(Succeed())
			return
		}
	}
}

// failPods ends a pod like a kubelet that has no room for it. The pod stays until it is deleted.
func (s *soak) failPods(ctx context.Context, one *actor) {
	GinkgoHelper()
	pods, err := s.pods(ctx, one.GetName())
	Expect(err).NotTo(HaveOccurred())
	if len(pods) > 0 {
		pod := &pods[s.dice.IntN(len(pods))]
		body := `{"status":{"phase":"Failed","conditions":[{"type":"Ready","status":"False"}]}}`
		Expect(client.IgnoreNotFound(api.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, []byte(body))))).To(Succeed())
	}
}

// rebudget gives a workload a budget, or one more, or takes it away.
func (s *soak) rebudget(ctx context.Context, one *actor) {
	GinkgoHelper()
	second := &policyv1.PodDisruptionBudget{ObjectMeta: s.meta(one.GetName()+"-more", nil)}
	if err := api.Delete(ctx, second); err == nil {
		return
	}
	s.bound(ctx, one.GetName()+"-more", one, s.dice.IntN(3))
}

func (s *soak) outOfScope(ctx context.Context, _ *actor) { relabel(ctx, s.in, "false") }

func (s *soak) intoScope(ctx context.Context, _ *actor) { relabel(ctx, s.in, "true") }

func (s *soak) recreate(ctx context.Context, one *actor) {
	GinkgoHelper()
	Expect(api.Delete(ctx, one.Object, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	s.make(ctx, one, one.GetName())
}

func (s *soak) dryRun(ctx context.Context, one *actor) {
	GinkgoHelper()
	pods, err := s.pods(ctx, one.GetName())
	Expect(err).NotTo(HaveOccurred())
	if len(pods) > 0 && len(pods[0].OwnerReferences) > 0 {
		owner := pods[0].OwnerReferences[0]
		for range 3 {
			pod := s.podOf(&metav1.ObjectMeta{Name: owner.Name, UID: owner.UID}, owner.Kind, pods[0].Labels)
			Expect(api.Create(ctx, pod, client.DryRunAll)).To(Succeed())
		}
	}
}

// heal repairs everything that users can repair.
func (s *soak) heal(ctx context.Context) {
	GinkgoHelper()
	GinkgoWriter.Println("HEAL", time.Now().Format("15:04:05.000"))
	s.thaw(ctx, nil)
	s.relieve()
	for range 3 {
		s.begin(ctx, nil)
	}
	s.intoScope(ctx, nil)
	s.healNodes(ctx)
	s.healPods(ctx)
	for _, one := range s.cast {
		if one.managed = s.spreads(one); one.managed {
			one.opt(ctx, strconv.Itoa(one.floor), strconv.Itoa(one.share))
		}
		one.overrides = false
		Expect(client.IgnoreNotFound(api.Delete(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: s.meta(one.GetName()+"-more", nil)}))).To(Succeed())
		one.annotate(ctx, map[string]any{spreads(v1alpha1.SpreadWindows): nil, spreads(v1alpha1.SpreadPDBOverride): nil})
		if !one.managed {
			one.annotate(ctx, map[string]any{spreads(v1alpha1.SpreadSpotPercentage): nil})
		}
		if one.kind == v1alpha1.WorkloadDeployment {
			one.patch(ctx, map[string]any{"spec": map[string]any{"paused": false}})
		}
		one.note()
	}
}

func (s *soak) healPods(ctx context.Context) {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(api.List(ctx, list, client.InNamespace(s.in))).To(Succeed())
	for n := range list.Items {
		if list.Items[n].Status.Phase == corev1.PodRunning && !available(list.Items[n]) {
			s.declare(ctx, &list.Items[n], corev1.ConditionTrue)
		}
	}
}
