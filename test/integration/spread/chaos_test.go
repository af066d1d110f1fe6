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

// A chaosEvent is an event that may happen in a cluster at any time, with a frequency by weight.
type chaosEvent struct {
	name   string
	weight int
	inject func(*soakTest, context.Context, *managedWorkload)
}

var chaosEvents = []chaosEvent{
	{"scale", 8, (*soakTest).rescale},
	{"reannotate", 6, (*soakTest).reannotate},
	{"opt out", 2, (*soakTest).optOut},
	{"break", 2, (*soakTest).breakSetting},
	{"override", 1, (*soakTest).override},
	{"windows", 1, (*soakTest).closeWindows},
	{"roll", 4, (*soakTest).roll},
	{"pause", 2, (*soakTest).pause},
	{"delete pods", 5, (*soakTest).deletePods},
	{"sicken pods", 3, (*soakTest).makeUnready},
	{"fail pods", 2, (*soakTest).failPods},
	{"budget", 2, (*soakTest).changeBudgets},
	{"namespace", 1, (*soakTest).outOfScope},
	{"namespace back", 2, (*soakTest).intoScope},
	{"fill", 2, (*soakTest).limitNode},
	{"recreate", 2, (*soakTest).recreate},
	{"dry run", 3, (*soakTest).dryRun},
	{"cordon", 4, (*soakTest).cordonOne},
	{"uncordon", 4, (*soakTest).restoreOne},
	{"warn", 3, (*soakTest).taintOne},
	{"relabel", 2, (*soakTest).relabelOne},
	{"add node", 2, (*soakTest).addNode},
	{"remove node", 2, (*soakTest).removeNode},
	{"outage", 3, (*soakTest).blockClass},
	{"return", 3, (*soakTest).restoreAll},
	{"kill", 1, (*soakTest).kill},
	{"freeze", 1, (*soakTest).freezeReplica},
	{"thaw", 2, (*soakTest).unfreezeReplicas},
	{"begin", 2, (*soakTest).startMissingReplica},
}

// injectChaos causes an event, and waits a moment.
func (s *soakTest) injectChaos(ctx context.Context) {
	GinkgoHelper()
	total := 0
	for _, event := range chaosEvents {
		total += event.weight
	}
	roll := s.random.IntN(total)
	for _, event := range chaosEvents {
		if roll -= event.weight; roll < 0 {
			victim := s.workloads[s.random.IntN(len(s.workloads))]
			GinkgoWriter.Printf("HARM %s %s %s\n", time.Now().Format("15:04:05.000"), event.name, victim.GetName())
			event.inject(s, ctx, victim)
			break
		}
	}
	select { // how often events occur, without waiting for their effects
	case <-ctx.Done():
	case <-time.After(time.Duration(s.random.IntN(700)) * time.Millisecond):
	}
}

func (s *soakTest) rescale(ctx context.Context, w *managedWorkload) {
	w.size = s.random.IntN(13)
	if s.random.IntN(6) == 0 {
		w.size = s.random.IntN(31)
	}
	w.scale(ctx, w.size)
	w.recordSettings()
}

func (s *soakTest) isSpread(one *managedWorkload) bool { return slices.Index(s.workloads, one) < 10 }

func (s *soakTest) reannotate(ctx context.Context, w *managedWorkload) {
	if !s.isSpread(w) {
		return
	}
	w.managed, w.floor, w.share = true, s.random.IntN(6), 10*s.random.IntN(11)
	w.optIn(ctx, strconv.Itoa(w.floor), strconv.Itoa(w.share))
	w.recordSettings()
}

func (s *soakTest) optOut(ctx context.Context, one *managedWorkload) {
	one.annotate(ctx, map[string]any{annotationKey(v1alpha1.SpreadMode): nil})
	one.managed = false
	one.recordSettings()
}

func (s *soakTest) breakSetting(ctx context.Context, one *managedWorkload) {
	one.annotate(ctx, map[string]any{annotationKey(v1alpha1.SpreadSpotPercentage): "many"})
}

func (s *soakTest) override(ctx context.Context, one *managedWorkload) {
	one.annotate(ctx, map[string]any{annotationKey(v1alpha1.SpreadPDBOverride): "true"})
	one.overrides = true
	one.recordSettings()
}

func (s *soakTest) closeWindows(ctx context.Context, one *managedWorkload) {
	one.annotate(ctx, map[string]any{annotationKey(v1alpha1.SpreadWindows): "0 0 29 2 * for 1m"})
}

func (s *soakTest) roll(ctx context.Context, one *managedWorkload) {
	one.patch(ctx, templateChange(strconv.Itoa(s.random.IntN(4)))) // also back to one that was
}

// templateChange is what makes a template another.
func templateChange(to string) any {
	annotations := map[string]any{"annotations": map[string]any{"roll": to}}
	return map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": annotations}}}
}

func (s *soakTest) pause(ctx context.Context, one *managedWorkload) {
	if one.kind == v1alpha1.WorkloadDeployment {
		one.patch(ctx, map[string]any{"spec": map[string]any{"paused": s.random.IntN(2) == 0}})
	}
}

func (s *soakTest) deletePods(ctx context.Context, one *managedWorkload) {
	GinkgoHelper()
	pods, err := s.pods(ctx, one.GetName())
	Expect(err).NotTo(HaveOccurred())
	for range min(len(pods), 1+s.random.IntN(3)) {
		Expect(client.IgnoreNotFound(api.Delete(ctx, &pods[s.random.IntN(len(pods))]))).To(Succeed())
	}
}

// makeUnready makes a pod not Ready until it is healed.
func (s *soakTest) makeUnready(ctx context.Context, one *managedWorkload) {
	GinkgoHelper()
	pods, err := s.pods(ctx, one.GetName())
	Expect(err).NotTo(HaveOccurred())
	if len(pods) > 0 {
		s.declare(ctx, &pods[s.random.IntN(len(pods))], corev1.ConditionFalse)
	}
}

// declare sets whether a pod is Ready.
func (s *soakTest) declare(ctx context.Context, pod *corev1.Pod, ready corev1.ConditionStatus) {
	GinkgoHelper()
	for n := range pod.Status.Conditions {
		if pod.Status.Conditions[n].Type == corev1.PodReady && pod.DeletionTimestamp == nil {
			body := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, ready)
			Expect(client.IgnoreNotFound(api.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, []byte(body))))).To(Succeed())
			return
		}
	}
}

// failPods fails a pod like a kubelet that has no room for it. The pod stays until it is deleted.
func (s *soakTest) failPods(ctx context.Context, one *managedWorkload) {
	GinkgoHelper()
	pods, err := s.pods(ctx, one.GetName())
	Expect(err).NotTo(HaveOccurred())
	if len(pods) > 0 {
		pod := &pods[s.random.IntN(len(pods))]
		body := `{"status":{"phase":"Failed","conditions":[{"type":"Ready","status":"False"}]}}`
		Expect(client.IgnoreNotFound(api.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, []byte(body))))).To(Succeed())
	}
}

// changeBudgets adds a budget to a workload, or removes its budgets.
func (s *soakTest) changeBudgets(ctx context.Context, w *managedWorkload) {
	GinkgoHelper()
	second := &policyv1.PodDisruptionBudget{ObjectMeta: s.meta(w.GetName()+"-more", nil)}
	if err := api.Delete(ctx, second); err == nil {
		return
	}
	s.createBudget(ctx, w.GetName()+"-more", w, s.random.IntN(3))
}

func (s *soakTest) outOfScope(ctx context.Context, _ *managedWorkload) {
	setNamespaceLabel(ctx, s.namespace, "false")
}

func (s *soakTest) intoScope(ctx context.Context, _ *managedWorkload) {
	setNamespaceLabel(ctx, s.namespace, "true")
}

func (s *soakTest) recreate(ctx context.Context, one *managedWorkload) {
	GinkgoHelper()
	Expect(api.Delete(ctx, one.Object, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	s.createWorkload(ctx, one, one.GetName())
}

func (s *soakTest) dryRun(ctx context.Context, one *managedWorkload) {
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
func (s *soakTest) heal(ctx context.Context) {
	GinkgoHelper()
	GinkgoWriter.Println("HEAL", time.Now().Format("15:04:05.000"))
	s.unfreezeReplicas(ctx, nil)
	s.stopUnfrozen()
	for range 3 {
		s.startMissingReplica(ctx, nil)
	}
	s.intoScope(ctx, nil)
	s.healNodes(ctx)
	s.healPods(ctx)
	for _, w := range s.workloads {
		if w.managed = s.isSpread(w); w.managed {
			w.optIn(ctx, strconv.Itoa(w.floor), strconv.Itoa(w.share))
		}
		w.overrides = false
		Expect(client.IgnoreNotFound(api.Delete(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: s.meta(w.GetName()+"-more", nil)}))).To(Succeed())
		w.annotate(ctx, map[string]any{annotationKey(v1alpha1.SpreadWindows): nil, annotationKey(v1alpha1.SpreadPDBOverride): nil})
		if !w.managed {
			w.annotate(ctx, map[string]any{annotationKey(v1alpha1.SpreadSpotPercentage): nil})
		}
		if w.kind == v1alpha1.WorkloadDeployment {
			w.patch(ctx, map[string]any{"spec": map[string]any{"paused": false}})
		}
		w.recordSettings()
	}
}

func (s *soakTest) healPods(ctx context.Context) {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(api.List(ctx, list, client.InNamespace(s.namespace))).To(Succeed())
	for n := range list.Items {
		if list.Items[n].Status.Phase == corev1.PodRunning && !isAvailable(list.Items[n]) {
			s.declare(ctx, &list.Items[n], corev1.ConditionTrue)
		}
	}
}
