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
	// Worker pools rely on this: the kubelet updates a pod's files when it syncs the pod, which a changed annotation triggers at once.
	// Otherwise it syncs 60 to 90 s after the last time, which test/e2e/pool measures while its specs run.
	It("is seen by a nudged pod at once", func(ctx SpecContext) {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: map[string]string{"version": "old"}}
		create(ctx, config, reader().pod("nudged"))
		nudged := awaitReady(ctx, "nudged")

		// The kubelet syncs a pod several times while it starts. From this round on no sync is due for a minute.
		change(ctx, config, "settled")
		nudge(ctx, nudged, "1")
		Eventually(version).WithContext(ctx).WithArguments(nudged).Should(Equal("settled"))

		changed := change(ctx, config, "new")
		nudge(ctx, nudged, "2")
		Eventually(version).WithContext(ctx).WithArguments(nudged).WithTimeout(nudgeTimeout).Should(Equal("new"))
		AddReportEntry("the changed ConfigMap was seen after", ReportEntryVisibilityAlways, fmt.Sprintf("%.1f s", time.Since(changed).Seconds()))
	})
})

// nudgeTimeout is so short that only the nudge can have caused an update by then.
const nudgeTimeout = 30 * time.Second

// change writes a new version and returns the time.
func change(ctx context.Context, config *corev1.ConfigMap, version string) time.Time {
	config.Data["version"] = version
	ExpectWithOffset(1, api.Update(ctx, config)).To(Succeed())
	return time.Now()
}

// reader is on the second node, so that specs that break the first one do not affect the measurement.
func reader() *workload {
	return idler().onNode(nodes[1]).mounting("config", corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}},
	})
}

func version(ctx context.Context, pod *corev1.Pod) (string, error) {
	return content(ctx, pod, "/config/version")
}

func nudge(ctx context.Context, pod *corev1.Pod, version string) {
	before := client.MergeFrom(pod.DeepCopy())
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationConfigVersion, version)
	ExpectWithOffset(1, api.Patch(ctx, pod, before)).To(Succeed())
}
