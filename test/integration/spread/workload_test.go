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
	"github.com/swarm-io/swarm-operator/internal/testkit/chronicle"
)

// A workload is a Deployment or a StatefulSet of a scene.
type workload struct {
	*scene
	client.Object
}

// meta is the name and the settings of a workload.
func (s *scene) meta(name string, annotations map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.in, Name: name, Annotations: annotations}
}

func (s *scene) template(name string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}, Spec: s.podSpec()}
}

func (s *scene) deployment(ctx context.Context, name string, size int32, annotations map[string]string, changes ...func(*appsv1.DeploymentSpec)) workload {
	GinkgoHelper()
	made := &appsv1.Deployment{ObjectMeta: s.meta(name, annotations), Spec: deploymentSpec(s.template(name), size)}
	for _, change := range changes {
		change(&made.Spec)
	}
	Expect(api.Create(ctx, made)).To(Succeed())
	return workload{s, made}
}

func (s *scene) statefulSet(ctx context.Context, name string, size int32, annotations map[string]string, changes ...func(*appsv1.StatefulSetSpec)) workload {
	GinkgoHelper()
	made := &appsv1.StatefulSet{ObjectMeta: s.meta(name, annotations), Spec: statefulSetSpec(s.template(name), size)}
	for _, change := range changes {
		change(&made.Spec)
	}
	Expect(api.Create(ctx, made)).To(Succeed())
	return workload{s, made}
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

// both are a Deployment and a StatefulSet that want the same.
func (s *scene) both(ctx context.Context, name string, size int32, annotations map[string]string) []workload {
	GinkgoHelper()
	return []workload{s.deployment(ctx, name+"-d", size, annotations), s.statefulSet(ctx, name+"-s", size, annotations)}
}

// fresh reads the workload.
func (w workload) fresh(ctx context.Context) (client.Object, error) {
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

// keeps checks that the workload's spec is as it was made.
func (w workload) keeps(ctx context.Context) {
	GinkgoHelper()
	object, err := w.fresh(ctx)
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

// opt opts the workload in.
func (w workload) opt(ctx context.Context, floor, share string) {
	GinkgoHelper()
	all := map[string]any{}
	for key, value := range wish(floor, share) {
		all[key] = value
	}
	w.annotate(ctx, all)
}

// says returns the value of an annotation of ours, "" without one.
func (w workload) says(annotation v1alpha1.SpreadAnnotation) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		object, err := w.fresh(ctx)
		return object.GetAnnotations()[spreads(annotation)], err
	}
}

// status waits until the workload reports this state.
func (w workload) status(ctx context.Context, word string) {
	GinkgoHelper()
	Eventually(w.says(v1alpha1.SpreadStatus)).WithContext(ctx).Should(Equal(word))
}

// told waits for an event about the workload.
func (w workload) told(ctx context.Context, start string) {
	GinkgoHelper()
	Eventually(w.events).WithContext(ctx).WithArguments(w.GetName()).Should(ContainElement(HavePrefix(start)))
}

// runs waits until this many pods run on nodes of each class, and no others but terminating ones.
func (w workload) runs(ctx context.Context, onDemand, spot int) {
	GinkgoHelper()
	Eventually(w.unsettled).WithContext(ctx).WithArguments(distribution(onDemand, spot), onDemand+spot).Should(BeEmpty(), w.GetName())
}

// settles waits for the same, and for the workload to say so.
func (w workload) settles(ctx context.Context, onDemand, spot int) {
	GinkgoHelper()
	w.runs(ctx, onDemand, spot)
	want := distribution(onDemand, spot)
	Eventually(func() (map[string]string, error) {
		object, err := w.fresh(ctx)
		return object.GetAnnotations(), err
	}).Should(And(
		HaveKeyWithValue(spreads(v1alpha1.SpreadDesired), want), HaveKeyWithValue(spreads(v1alpha1.SpreadCurrent), want),
		HaveKeyWithValue(spreads(v1alpha1.SpreadStatus), v1alpha1.SpreadBalanced),
	), w.GetName())
}

// unsettled is why the pods of a workload are not as they should be.
func (w workload) unsettled(ctx context.Context, want string, size int) (string, error) {
	pods, err := w.pods(ctx, w.GetName())
	if err != nil {
		return "", err
	}
	// A terminating pod stays for a while when its node is gone.
	pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	for _, pod := range pods {
		if !available(pod) {
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

// available reports whether a pod serves.
func available(pod corev1.Pod) bool { return chronicle.IsAvailable(&pod) }

// watched records a workload's pods from now on, until the spec ends.
func (w workload) watched(ctx context.Context) *chronicle.Recorder {
	GinkgoHelper()
	return chronicle.Watch(ctx, api, w.in, client.MatchingLabels{"app": w.GetName()})
}

// budget lets pods of a workload be evicted only while this many stay.
func (w workload) budget(ctx context.Context, name string, least intstr.IntOrString) {
	GinkgoHelper()
	made := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.in, Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: selecting(w.GetName())},
	}
	Expect(api.Create(ctx, made)).To(Succeed())
	Eventually(func() (int64, error) {
		err := api.Get(ctx, client.ObjectKeyFromObject(made), made)
		return made.Status.ObservedGeneration, err
	}).Should(Equal(made.Generation))
}
