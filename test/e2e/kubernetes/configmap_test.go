package kubernetes

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

var _ = Describe("A mounted ConfigMap that changes", func() {
	// Sticky pools rest on this: the kubelet looks at a pod's files when it looks at the pod, which an annotation makes it do
	// at once and which is otherwise due 60 to 90 s after the last time.
	It("is seen by a nudged pod long before an untouched one", func(ctx SpecContext) {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: map[string]string{"version": "old"}}
		create(ctx, config, reader().pod("nudged"), reader().pod("untouched"))
		nudged, untouched := awaitReady(ctx, "nudged"), awaitReady(ctx, "untouched")
		Expect(version(ctx, nudged)).To(Equal("old"))
		Expect(version(ctx, untouched)).To(Equal("old"))

		config.Data["version"] = "new"
		Expect(api.Update(ctx, config)).To(Succeed())
		changed := time.Now()
		nudge(ctx, nudged)

		Eventually(version).WithContext(ctx).WithArguments(nudged).Should(Equal("new"))
		withNudge := time.Since(changed)
		Expect(version(ctx, untouched)).To(Equal("old"), "the nudge, and not chance, brought the new file")
		Eventually(version).WithContext(ctx).WithArguments(untouched).WithTimeout(3 * time.Minute).WithPolling(time.Second).Should(Equal("new"))
		report(withNudge, time.Since(changed))
	})
})

// reader is on the second node, so that a spec that hurts the first has no part in the measurement.
func reader() *workload {
	return idler().on(nodes[1]).mounting("config", corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}},
	})
}

func version(ctx context.Context, pod *corev1.Pod) (string, error) {
	return content(ctx, pod, "/config/version")
}

func nudge(ctx context.Context, pod *corev1.Pod) {
	before := client.MergeFrom(pod.DeepCopy())
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationConfigVersion, "2")
	ExpectWithOffset(1, api.Patch(ctx, pod, before)).To(Succeed())
}

func report(nudged, untouched time.Duration) {
	line := fmt.Sprintf("nudged pod %.1f s, untouched pod %.1f s", nudged.Seconds(), untouched.Seconds())
	AddReportEntry("the changed ConfigMap was seen after", ReportEntryVisibilityAlways, line)
}
