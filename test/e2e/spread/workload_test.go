package spread

import (
	"context"
	"encoding/json"
	"strconv"

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
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

func template(name string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}, Spec: testcluster.IdlePod()}
}

func selector(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

// annotationKey is the key of an annotation.
func annotationKey(annotation v1alpha1.SpreadAnnotation) string {
	return annotation.Key(v1alpha1.Prefix)
}

// spreadMeta returns a workload's name and its settings: a minimum of on-demand replicas, and a share in percent.
func spreadMeta(name string, floor, share int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{
		annotationKey(v1alpha1.SpreadMode): v1alpha1.SpreadEnabled, annotationKey(v1alpha1.SpreadMinOnDemand): strconv.Itoa(floor),
		annotationKey(v1alpha1.SpreadSpotPercentage): strconv.Itoa(share),
	}}
}

func deployment(meta metav1.ObjectMeta, size int32) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &size, Selector: selector(meta.Name),
		Template: template(meta.Name)}}
}

func statefulSet(meta metav1.ObjectMeta, size int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
		Replicas: &size, Selector: selector(meta.Name), Template: template(meta.Name), ServiceName: meta.Name,
		PodManagementPolicy: appsv1.ParallelPodManagement,
	}}
}

// budget keeps at least this many pods of a workload.
func budget(name string, least int) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt(least)), Selector: selector(name)},
	}
}

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(api.Create(ctx, object)).To(Succeed())
	}
}

func patch(ctx context.Context, object client.Object, body any) {
	GinkgoHelper()
	text, err := json.Marshal(body)
	Expect(err).NotTo(HaveOccurred())
	Expect(api.Patch(ctx, object, client.RawPatch(types.MergePatchType, text))).To(Succeed())
}

func scale(ctx context.Context, workload client.Object, size int) {
	GinkgoHelper()
	patch(ctx, workload, map[string]any{"spec": map[string]any{"replicas": size}})
}

// awaitCovered adds the namespace to those for which the webhook is called, with a workload without pods, before the first pod of a spec.
func awaitCovered(ctx context.Context) {
	GinkgoHelper()
	cover := pausedDeployment("cover")
	create(ctx, cover)
	Eventually(webhook.AdmitsPlaced).WithContext(ctx).WithArguments(cover).Should(BeTrue())
}

// pausedDeployment returns a Deployment with ten replicas that creates no pods.
func pausedDeployment(name string) *appsv1.Deployment {
	made := deployment(spreadMeta(name, 2, 60), 10)
	made.Spec.Paused = true
	return made
}
