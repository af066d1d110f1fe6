package spread

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/podwatch"
)

// A workload is a Deployment or a StatefulSet of an environment.
type workload struct {
	*environment
	client.Object
}

// meta is the name and the settings of a workload.
func (s *environment) meta(name string, annotations map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: name, Annotations: annotations}
}

func (s *environment) template(name string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}, Spec: s.podSpec()}
}

func (s *environment) deployment(ctx context.Context, name string, size int32, annotations map[string]string,
	changes ...func(*appsv1.DeploymentSpec)) workload {
	GinkgoHelper()
	object := &appsv1.Deployment{ObjectMeta: s.meta(name, annotations), Spec: deploymentSpec(s.template(name), size)}
	for _, change := range changes {
		change(&object.Spec)
	}
	Expect(api.Create(ctx, object)).To(Succeed())
	return workload{s, object}
}

func (s *environment) statefulSet(ctx context.Context, name string, size int32, annotations map[string]string,
	changes ...func(*appsv1.StatefulSetSpec)) workload {
	GinkgoHelper()
	object := &appsv1.StatefulSet{ObjectMeta: s.meta(name, annotations), Spec: statefulSetSpec(s.template(name), size)}
	for _, change := range changes {
		change(&object.Spec)
	}
	Expect(api.Create(ctx, object)).To(Succeed())
	return workload{s, object}
}

func selecting(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func deploymentSpec(template corev1.PodTemplateSpec, size int32) appsv1.DeploymentSpec {
	return appsv1.DeploymentSpec{Replicas: &size, Selector: selecting(template.Labels["app"]), Template: template}
}

func statefulSetSpec(template corev1.PodTemplateSpec, size int32) appsv1.StatefulSetSpec {
	return appsv1.StatefulSetSpec{
		Replicas: &size, Selector: selecting(template.Labels["app"]), Template: template,
		PodManagementPolicy: appsv1.ParallelPodManagement, ServiceName: template.Labels["app"],
	}
}

// createBoth creates a Deployment and a StatefulSet with the same settings.
func (s *environment) createBoth(ctx context.Context, name string, size int32, annotations map[string]string) []workload {
	GinkgoHelper()
	return []workload{s.deployment(ctx, name+"-d", size, annotations), s.statefulSet(ctx, name+"-s", size, annotations)}
}

// current reads the workload.
func (w workload) current(ctx context.Context) (client.Object, error) {
	object := w.DeepCopyObject().(client.Object)
	err := api.Get(ctx, client.ObjectKeyFromObject(w.Object), object)
	return object, err
}

// spec is what a workload's owner has set, without metadata and status.
func spec(object client.Object) any {
	switch object := object.(type) {
	case *appsv1.Deployment:
		return object.Spec
	case *appsv1.StatefulSet:
		return object.Spec
	}
	return nil
}

// expectSpecUnchanged checks that the workload's spec is as it was made.
func (w workload) expectSpecUnchanged(ctx context.Context) {
	GinkgoHelper()
	object, err := w.current(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(spec(object)).To(Equal(spec(w.Object)), w.GetName())
}

func (w workload) patch(ctx context.Context, body any) {
	GinkgoHelper()
	text, err := json.Marshal(body)
	Expect(err).NotTo(HaveOccurred())
	object := w.DeepCopyObject().(client.Object)
	Expect(api.Patch(ctx, object, client.RawPatch(types.MergePatchType, text))).To(Succeed())
}

func (w workload) scale(ctx context.Context, size int) {
	GinkgoHelper()
	w.patch(ctx, map[string]any{"spec": map[string]any{"replicas": size}})
}

// annotate sets annotations, and removes those that are nil.
func (w workload) annotate(ctx context.Context, annotations map[string]any) {
	GinkgoHelper()
	w.patch(ctx, map[string]any{"metadata": map[string]any{"annotations": annotations}})
}

// optIn opts the workload in.
func (w workload) optIn(ctx context.Context, floor, share string) {
	GinkgoHelper()
	all := map[string]any{}
	for key, value := range spreadSettings(floor, share) {
		all[key] = value
	}
	w.annotate(ctx, all)
}

// annotation returns the value of an annotation of ours, "" without one.
func (w workload) annotation(annotation v1alpha1.SpreadAnnotation) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		object, err := w.current(ctx)
		return object.GetAnnotations()[annotationKey(annotation)], err
	}
}

// status waits until the workload reports this state.
func (w workload) status(ctx context.Context, word string) {
	GinkgoHelper()
	Eventually(w.annotation(v1alpha1.SpreadStatus)).WithContext(ctx).Should(Equal(word))
}

// awaitEvent waits for an event about the workload.
func (w workload) awaitEvent(ctx context.Context, start string) {
	GinkgoHelper()
	Eventually(w.events).WithContext(ctx).WithArguments(w.GetName()).Should(ContainElement(HavePrefix(start)))
}

// awaitRunning waits until this many pods run on nodes of each class, and no others but terminating ones.
func (w workload) awaitRunning(ctx context.Context, onDemand, spot int) {
	GinkgoHelper()
	Eventually(w.unsettledReason).WithContext(ctx).WithArguments(distribution(onDemand, spot), onDemand+spot).Should(BeEmpty(), w.GetName())
}

// awaitSettled waits for the same, and for the workload to report it.
func (w workload) awaitSettled(ctx context.Context, onDemand, spot int) {
	GinkgoHelper()
	w.awaitRunning(ctx, onDemand, spot)
	want := distribution(onDemand, spot)
	Eventually(func() (map[string]string, error) {
		object, err := w.current(ctx)
		return object.GetAnnotations(), err
	}).Should(And(
		HaveKeyWithValue(annotationKey(v1alpha1.SpreadDesired), want), HaveKeyWithValue(annotationKey(v1alpha1.SpreadCurrent), want),
		HaveKeyWithValue(annotationKey(v1alpha1.SpreadStatus), v1alpha1.SpreadBalanced),
	), w.GetName())
}

// unsettledReason returns why the pods of a workload are not where they should be.
func (w workload) unsettledReason(ctx context.Context, want string, size int) (string, error) {
	pods, err := w.pods(ctx, w.GetName())
	if err != nil {
		return "", err
	}
	// A terminating pod stays for a while when its node is gone.
	pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	for _, pod := range pods {
		if !isAvailable(pod) {
			return fmt.Sprintf("%s is not available", pod.Name), nil
		}
	}
	if len(pods) != size {
		return fmt.Sprintf("%d of %d pods", len(pods), size), nil
	}
	split, err := w.split(ctx, w.GetName())
	if err != nil || split == want {
		return "", err
	}
	return split, nil
}

// isAvailable reports whether a pod is available.
func isAvailable(pod corev1.Pod) bool { return podwatch.IsAvailable(&pod) }

// watchPods records a workload's pods from now on, until the spec ends.
func (w workload) watchPods(ctx context.Context) *podwatch.Recorder {
	GinkgoHelper()
	return podwatch.Watch(ctx, api, w.namespace, client.MatchingLabels{"app": w.GetName()})
}

// budget allows evictions of a workload's pods only while this many stay.
func (w workload) budget(ctx context.Context, name string, least intstr.IntOrString) {
	GinkgoHelper()
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: selecting(w.GetName())},
	}
	Expect(api.Create(ctx, budget)).To(Succeed())
	Eventually(func() (int64, error) {
		err := api.Get(ctx, client.ObjectKeyFromObject(budget), budget)
		return budget.Status.ObservedGeneration, err
	}).Should(Equal(budget.Generation))
}
