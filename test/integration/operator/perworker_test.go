package operator

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

var _ = Describe("Layout PerWorker, by the webhook,", Serial, func() {
	var ns string

	BeforeEach(func(ctx SpecContext) {
		port := ports.Free()
		ns = namespace(ctx, nil)
		startOperator(webhookSettings(ns, port)...)
		registerWebhook(ctx, ns, port, nil)
		Eventually(createStrayPod).WithContext(ctx).WithArguments(ns).Should(MatchError(ContainSubstring(noPool)))
	})

	It("gives each worker its own ConfigMap, and that its own list", func(ctx SpecContext) {
		pool(ctx, ns, v1alpha1.LayoutPerWorker)
		set := workers(ctx, ns)
		Eventually(mountedConfigMaps).WithContext(ctx).WithArguments(ns, "worker-0").Should(Equal([]string{"lists-worker-0", "other"}))
		Eventually(mountedConfigMaps).WithContext(ctx).WithArguments(ns, "worker-1").Should(Equal([]string{"lists-worker-1", "other"}))
		Eventually(list).WithContext(ctx).WithArguments(ns, "lists-worker-0").
			Should(And(ContainSubstring("worker-0:\n    jobs:\n      - a\n      - b\n"), Not(ContainSubstring("worker-1"))))
		Eventually(list).WithContext(ctx).WithArguments(ns, "lists-worker-1").Should(And(ContainSubstring("worker-1:\n    jobs:\n      - c\n"),
			Not(ContainSubstring("worker-0"))))

		tried := worker(set)
		Expect(api.Create(ctx, tried, client.DryRunAll)).To(Succeed())
		Expect(tried.Spec.Volumes[0].ConfigMap.Name).To(Equal("lists-worker-7"), "in a dry run")
		tried = worker(set)
		tried.Spec.Volumes = nil
		Expect(api.Create(ctx, tried, client.DryRunAll)).
			To(MatchError(ContainSubstring(`no volume of ConfigMap "lists": add it to the template of StatefulSet "worker"`)))
	})

	It("holds workers back until there is their pool, and says so where one looks", func(ctx SpecContext) {
		workers(ctx, ns)
		Eventually(eventMessages).WithContext(ctx).WithArguments(ns).
			Should(ContainElement(ContainSubstring(`there is no WorkerPool "cameras" in namespace "` + ns + `": create it first`)))
		Expect(pods(ctx, ns)).To(BeEmpty())
		pool(ctx, ns, v1alpha1.LayoutPerWorker)
		Eventually(mountedConfigMaps).WithContext(ctx).WithArguments(ns, "worker-0").Should(Equal([]string{"lists-worker-0", "other"}))
	})

	It("leaves the volumes of layout Shared as they are, and names the version that is published", func(ctx SpecContext) {
		pool(ctx, ns, v1alpha1.LayoutShared)
		set := workers(ctx, ns)
		Eventually(mountedConfigMaps).WithContext(ctx).WithArguments(ns, "worker-0").Should(Equal([]string{"lists", "other"}))
		Eventually(func(g Gomega) {
			tried := worker(set)
			g.Expect(api.Create(ctx, tried, client.DryRunAll)).To(Succeed())
			g.Expect(tried.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationConfigVersion, MatchRegexp("^[1-9][0-9]*$")))
		}).Should(Succeed())
	})
})

// pool shares three jobs over the workers.
func pool(ctx context.Context, ns string, layout v1alpha1.ConfigLayout) {
	GinkgoHelper()
	Expect(api.Create(ctx, &v1alpha1.WorkerPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "cameras"},
		Spec: v1alpha1.WorkerPoolSpec{
			Workers: v1alpha1.WorkloadReference{Kind: v1alpha1.WorkloadStatefulSet, Name: "worker"},
			Jobs:    []v1alpha1.Job{{Name: "a"}, {Name: "b"}, {Name: "c"}},
			Config:  v1alpha1.PoolConfig{Name: "lists", Layout: layout},
		},
	})).To(Succeed())
}

// workers are two pods that name their pool. Nothing that they mount exists yet.
func workers(ctx context.Context, ns string) *appsv1.StatefulSet {
	GinkgoHelper()
	labels := map[string]string{"app": "worker", v1alpha1.LabelPool: "cameras"}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "worker"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "worker", Image: "localhost/any"}},
				Volumes:    []corev1.Volume{volume("config", "lists"), volume("more", "other")},
			}},
		},
	}
	Expect(api.Create(ctx, set)).To(Succeed())
	return set
}

func volume(name, configMap string) corev1.Volume {
	return corev1.Volume{Name: name,
		VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: configMap},
		}}}
}

// worker is one more of the set, as its controller would make it.
func worker(set *appsv1.StatefulSet) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: "worker-7", Labels: set.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		},
		Spec: *set.Spec.Template.Spec.DeepCopy(),
	}
}

// mountedConfigMaps are the ConfigMaps of a pod.
func mountedConfigMaps(ctx context.Context, ns, name string) ([]string, error) {
	pod := &corev1.Pod{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, pod); err != nil {
		return nil, err
	}
	var names []string
	for _, volume := range pod.Spec.Volumes {
		if volume.ConfigMap != nil {
			names = append(names, volume.ConfigMap.Name)
		}
	}
	return names, nil
}

// list is the list in a ConfigMap of the pool.
func list(ctx context.Context, ns, name string) (string, error) {
	found := &corev1.ConfigMap{}
	err := api.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, found)
	return found.Data["config.yml"], err
}

// eventMessages returns the events of the StatefulSet.
func eventMessages(ctx context.Context, ns string) ([]string, error) {
	events := &corev1.EventList{}
	err := api.List(ctx, events, client.InNamespace(ns))
	var messages []string
	for _, event := range events.Items {
		if event.InvolvedObject.Kind == "StatefulSet" {
			messages = append(messages, fmt.Sprintf("%s: %s", event.Reason, event.Message))
		}
	}
	return messages, err
}
