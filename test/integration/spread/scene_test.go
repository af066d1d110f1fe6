package spread

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// A scene is a namespace with nodes of its own: no other pods are on them, and its pods are on no other.
type scene struct {
	in    string
	since audit
}

// empty has no nodes.
func empty(ctx context.Context) *scene {
	GinkgoHelper()
	s := &scene{in: namespace(ctx), since: now()}
	DeferCleanup(func(ctx SpecContext) {
		if CurrentSpecReport().Failed() {
			s.describe(ctx)
		}
		s.leave(ctx)
	})
	return s
}

// leave deletes the namespace and then its nodes. Nothing ends a pod whose node is gone, so all pods end first.
func (s *scene) leave(ctx context.Context) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.in}}))).To(Succeed())
	Expect(api.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(s.in), client.GracePeriodSeconds(0))).To(Succeed())
	Expect(api.DeleteAllOf(ctx, &corev1.Node{}, client.MatchingLabels{ours: s.in})).To(Succeed())
}

// stage has nodes of both classes in three zones.
func stage(ctx context.Context) *scene {
	GinkgoHelper()
	s := empty(ctx)
	s.nodes(ctx, onDemand, spot)
	return s
}

// covered is a stage whose pods the API server asks about from the very first on.
func covered(ctx context.Context) *scene {
	GinkgoHelper()
	s := stage(ctx)
	s.cover(ctx)
	return s
}

// cover waits until the API server asks about pods of the namespace, because of a workload without pods.
func (s *scene) cover(ctx context.Context) {
	GinkgoHelper()
	s.deployment(ctx, "cover", 0, wish("0", "50"))
	owner := &metav1.ObjectMeta{Name: "nobodys-abc", UID: "nobodys"}
	Eventually(func() ([]question, error) {
		err := api.Create(ctx, s.podOf(owner, "ReplicaSet", map[string]string{"pod-template-hash": "abc"}), client.DryRunAll)
		return team.questions(s.in), err
	}).ShouldNot(BeEmpty())
}

// podOf is a pod as a controller would make it.
func (s *scene) podOf(owner metav1.Object, kind string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.in, GenerateName: owner.GetName() + "-", Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: new(true)}},
		},
		Spec: s.podSpec(),
	}
}

// podSpec is what all pods of the scene have in common: they go to its nodes.
func (s *scene) podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(1)),
		Containers:                    []corev1.Container{{Name: "any", Image: "example.test/any:1"}},
		Tolerations:                   []corev1.Toleration{{Key: ours, Value: s.in, Effect: corev1.TaintEffectNoSchedule}},
	}
}

// wish are the annotations of a workload that wants a floor and a share; "" leaves one out.
func wish(floor, share string) map[string]string {
	all := map[string]string{spreads(v1alpha1.SpreadMode): v1alpha1.SpreadEnabled}
	if floor != "" {
		all[spreads(v1alpha1.SpreadMinOnDemand)] = floor
	}
	if share != "" {
		all[spreads(v1alpha1.SpreadSpotPercentage)] = share
	}
	return all
}

func spreads(annotation v1alpha1.SpreadAnnotation) string { return annotation.Key(v1alpha1.Prefix) }

// pods are the pods of a workload, the highest numbers last.
func (s *scene) pods(ctx context.Context, name string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := api.List(ctx, list, client.InNamespace(s.in), client.MatchingLabels{"app": name})
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return numberOf(a) - numberOf(b) })
	return list.Items, err
}

// numberOf is what admission wrote on a pod, -1 for nothing.
func numberOf(pod corev1.Pod) int {
	number, err := strconv.Atoi(pod.Annotations[spreads(v1alpha1.SpreadNumber)])
	if err != nil {
		return -1
	}
	return number
}

// split is how many pods of a workload are on nodes of each class, in the form of the annotations.
func (s *scene) split(ctx context.Context, name string) (string, error) {
	pods, err := s.pods(ctx, name)
	if err != nil {
		return "", err
	}
	class, err := classes(ctx, capacity)
	if err != nil {
		return "", err
	}
	counts := map[string]int{}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			counts[class[pod.Spec.NodeName]]++
		}
	}
	return distribution(counts[onDemand], counts[spot]), nil
}

func distribution(onDemand, spot int) string {
	return fmt.Sprintf("on-demand:%d,spot:%d", onDemand, spot)
}

// events returns the events about an object.
func (s *scene) events(ctx context.Context, name string) ([]string, error) {
	list := &corev1.EventList{}
	err := api.List(ctx, list, client.InNamespace(s.in))
	var all []string
	for _, event := range list.Items {
		if event.InvolvedObject.Name == name {
			all = append(all, fmt.Sprintf("%s %s: %s", event.Type, event.Reason, event.Message))
		}
	}
	return all, err
}

// describe shows what a spec has left when it has failed.
func (s *scene) describe(ctx context.Context) {
	list, class := &corev1.PodList{}, map[string]string{}
	if api.List(ctx, list, client.InNamespace(s.in)) == nil {
		class, _ = classes(ctx, capacity)
	}
	for _, pod := range list.Items {
		GinkgoWriter.Printf("pod %s number %s made for %s on %s (%s) phase %s ready %t going %t\n", pod.Name, pod.Annotations[spreads(v1alpha1.SpreadNumber)],
			pod.Annotations[spreads(v1alpha1.SpreadClass)], strings.TrimPrefix(pod.Spec.NodeName, s.in), class[pod.Spec.NodeName], pod.Status.Phase, available(pod), pod.DeletionTimestamp != nil)
	}
	events := &corev1.EventList{}
	_ = api.List(ctx, events, client.InNamespace(s.in))
	for _, event := range events.Items {
		if event.InvolvedObject.Kind != "Pod" {
			GinkgoWriter.Printf("event %s/%s %s: %s\n", event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason, event.Message)
		}
	}
	for _, one := range s.requests() {
		GinkgoWriter.Println(one)
	}
}
