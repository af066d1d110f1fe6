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

// An environment is a namespace with its own nodes: no other pods run on them, and its pods run on no others.
type environment struct {
	namespace string
	since     auditPosition
}

// newEmptyEnvironment has no nodes.
func newEmptyEnvironment(ctx context.Context) *environment {
	GinkgoHelper()
	s := &environment{namespace: namespace(ctx), since: currentAuditPosition()}
	DeferCleanup(func(ctx SpecContext) {
		if CurrentSpecReport().Failed() {
			s.describe(ctx)
		}
		s.cleanUp(ctx)
	})
	return s
}

// cleanUp deletes the namespace and then its nodes. Nothing ends a pod whose node is gone, so all pods end first.
func (s *environment) cleanUp(ctx context.Context) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))).To(Succeed())
	Expect(api.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(s.namespace), client.GracePeriodSeconds(0))).To(Succeed())
	Expect(api.DeleteAllOf(ctx, &corev1.Node{}, client.MatchingLabels{ours: s.namespace})).To(Succeed())
}

// newEnvironment has nodes of both classes in three zones.
func newEnvironment(ctx context.Context) *environment {
	GinkgoHelper()
	s := newEmptyEnvironment(ctx)
	s.nodes(ctx, onDemand, spot)
	return s
}

// newCoveredEnvironment returns an environment for whose pods the webhook is called from the first one on.
func newCoveredEnvironment(ctx context.Context) *environment {
	GinkgoHelper()
	s := newEnvironment(ctx)
	s.awaitCovered(ctx)
	return s
}

// awaitCovered creates a workload without pods, and waits until the webhook is called for the namespace.
func (s *environment) awaitCovered(ctx context.Context) {
	GinkgoHelper()
	s.deployment(ctx, "cover", 0, spreadSettings("0", "50"))
	owner := &metav1.ObjectMeta{Name: "nobodys-abc", UID: "nobodys"}
	Eventually(func() ([]webhookRequest, error) {
		err := api.Create(ctx, s.podOf(owner, "ReplicaSet", map[string]string{"pod-template-hash": "abc"}), client.DryRunAll)
		return replicaFleet.requestsIn(s.namespace), err
	}).ShouldNot(BeEmpty())
}

// podOf is a pod as a controller would make it.
func (s *environment) podOf(owner metav1.Object, kind string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, GenerateName: owner.GetName() + "-", Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: owner.GetName(), UID: owner.GetUID(),
				Controller: new(true)}},
		},
		Spec: s.podSpec(),
	}
}

// podSpec is common to all pods of the environment: they go to its nodes.
func (s *environment) podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(1)),
		Containers:                    []corev1.Container{{Name: "any", Image: "example.test/any:1"}},
		Tolerations:                   []corev1.Toleration{{Key: ours, Value: s.namespace, Effect: corev1.TaintEffectNoSchedule}},
	}
}

// spreadSettings are the annotations of a workload that wants a floor and a share; "" leaves one out.
func spreadSettings(floor, share string) map[string]string {
	annotations := map[string]string{annotationKey(v1alpha1.SpreadMode): v1alpha1.SpreadEnabled}
	if floor != "" {
		annotations[annotationKey(v1alpha1.SpreadMinOnDemand)] = floor
	}
	if share != "" {
		annotations[annotationKey(v1alpha1.SpreadSpotPercentage)] = share
	}
	return annotations
}

func annotationKey(annotation v1alpha1.SpreadAnnotation) string {
	return annotation.Key(v1alpha1.Prefix)
}

// pods are the pods of a workload, the highest numbers last.
func (s *environment) pods(ctx context.Context, name string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := api.List(ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{"app": name})
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return numberOf(a) - numberOf(b) })
	return list.Items, err
}

// numberOf is what admission wrote on a pod, -1 for nothing.
func numberOf(pod corev1.Pod) int {
	number, err := strconv.Atoi(pod.Annotations[annotationKey(v1alpha1.SpreadNumber)])
	if err != nil {
		return -1
	}
	return number
}

// split is how many pods of a workload are on nodes of each class, in the form of the annotations.
func (s *environment) split(ctx context.Context, name string) (string, error) {
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
func (s *environment) events(ctx context.Context, name string) ([]string, error) {
	list := &corev1.EventList{}
	err := api.List(ctx, list, client.InNamespace(s.namespace))
	var messages []string
	for _, event := range list.Items {
		if event.InvolvedObject.Name == name {
			messages = append(messages, fmt.Sprintf("%s %s: %s", event.Type, event.Reason, event.Message))
		}
	}
	return messages, err
}

// describe prints the state of the environment if the spec has failed.
func (s *environment) describe(ctx context.Context) {
	list, class := &corev1.PodList{}, map[string]string{}
	if api.List(ctx, list, client.InNamespace(s.namespace)) == nil {
		class, _ = classes(ctx, capacity)
	}
	for _, pod := range list.Items {
		GinkgoWriter.Printf("pod %s number %s made for %s on %s (%s) phase %s ready %t going %t\n", pod.Name,
			pod.Annotations[annotationKey(v1alpha1.SpreadNumber)],
			pod.Annotations[annotationKey(v1alpha1.SpreadClass)], strings.TrimPrefix(pod.Spec.NodeName, s.namespace), class[pod.Spec.NodeName],
			pod.Status.Phase, isAvailable(pod), pod.DeletionTimestamp != nil)
	}
	events := &corev1.EventList{}
	_ = api.List(ctx, events, client.InNamespace(s.namespace))
	for _, event := range events.Items {
		if event.InvolvedObject.Kind != "Pod" {
			GinkgoWriter.Printf("event %s/%s %s: %s\n", event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason, event.Message)
		}
	}
	for _, one := range s.requests() {
		GinkgoWriter.Println(one)
	}
}
