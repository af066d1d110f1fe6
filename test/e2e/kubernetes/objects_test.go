package kubernetes

import (
	"context"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// create creates objects in the spec's namespace.
func create(ctx context.Context, objects ...client.Object) {
	for _, object := range objects {
		object.SetNamespace(namespace)
		ExpectWithOffset(1, api.Create(ctx, object)).To(Succeed(), "create %T %s", object, object.GetName())
	}
}

// fetch reads an object from the API server.
func fetch[Object client.Object](ctx context.Context, object Object) (Object, error) {
	fresh := object.DeepCopyObject().(Object)
	return fresh, api.Get(ctx, client.ObjectKeyFromObject(object), fresh)
}

// startPod creates a pod and waits until it is Ready.
func startPod(ctx context.Context, pod *corev1.Pod) *corev1.Pod {
	create(ctx, pod)
	return awaitReady(ctx, pod.Name)
}

// awaitReady waits for the pod of that name.
func awaitReady(ctx context.Context, name string) *corev1.Pod {
	var pod *corev1.Pod
	EventuallyWithOffset(1, func(g Gomega, ctx context.Context) {
		var err error
		pod, err = fetch(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
		g.Expect(err).NotTo(HaveOccurred())
		stopWithoutImage(pod)
		g.Expect(serving(pod)).To(BeTrue(), "pod %s is %s", name, pod.Status.Phase)
	}).WithContext(ctx).Should(Succeed())
	return pod
}

// servingPods returns the pods of an app that are Ready and not terminating.
func servingPods(ctx context.Context, app string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := api.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{appLabel: app}); err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	for _, pod := range list.Items {
		stopWithoutImage(&pod)
		if serving(&pod) {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// awaitServing waits until this many pods of an app are Ready.
func awaitServing(ctx context.Context, app string, count int) []corev1.Pod {
	var pods []corev1.Pod
	EventuallyWithOffset(1, func(ctx context.Context) (_ []corev1.Pod, err error) {
		pods, err = servingPods(ctx, app)
		return pods, err
	}).WithContext(ctx).Should(HaveLen(count), "Ready pods of %s", app)
	return pods
}

func serving(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && isPodReady(pod)
}

// stopWithoutImage avoids the wait for a pod that can never start.
func stopWithoutImage(pod *corev1.Pod) {
	for _, container := range pod.Status.ContainerStatuses {
		if waiting := container.State.Waiting; waiting != nil && waiting.Reason == "ErrImageNeverPull" {
			StopTrying("the nodes lack the image " + container.Image + ": run `make e2e`, or put it there with `devcluster image load`").Now()
		}
	}
}

func isPodReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
