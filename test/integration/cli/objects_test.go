package cli

import (
	"context"
	"fmt"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// createPools makes a pool named cameras of two workers and 27 jobs that has converged, and one named empty.
func createPools(ctx context.Context, ns string) {
	GinkgoHelper()
	jobs, published := golden("pool-27-jobs.txt"), golden("pool-27-expected.yml")
	pool := newPool(ns, "cameras", v1alpha1.WorkloadStatefulSet, "swarm-worker")
	pool.Spec.JobsFrom = []v1alpha1.JobSource{{ConfigMapKeyRef: v1alpha1.ConfigMapKey{Name: "camera-list", Key: "jobs.txt"}}}
	Expect(api.Create(ctx, pool)).To(Succeed())
	Expect(api.Create(ctx, newPool(ns, "empty", v1alpha1.WorkloadStatefulSet, "missing"))).To(Succeed())
	Expect(api.Create(ctx, newStatefulSet(ns))).To(Succeed())
	Expect(api.Create(ctx, newConfigMap(pool, "camera-list", "jobs.txt", jobs))).To(Succeed())
	Expect(api.Create(ctx, newConfigMap(pool, "swarm-worker-config", "config.yml", published))).To(Succeed())
	file, err := codec.ParseFile(published)
	Expect(err).NotTo(HaveOccurred())
	Expect(api.Create(ctx, newRevision(pool, 1, file))).To(Succeed())
	Expect(api.Create(ctx, newRevision(pool, 2, codec.File{Version: 2, Workers: []codec.FileEntry{
		{Worker: "swarm-worker-0", Version: 2, Jobs: []string{"stream:cars:new"}},
		{Worker: "swarm-worker-1", Version: 2, Jobs: []string{"stream:foo:new"}},
	}}))).To(Succeed())
	Expect(api.Create(ctx, newRevision(pool, 3, file))).To(Succeed())
	pool.Status = v1alpha1.WorkerPoolStatus{
		Size: 2, ExpectedSize: 2, Jobs: 27, Version: 1, Revision: 3, ConvergedRevision: 3,
		Workers: []v1alpha1.WorkerStatus{
			{Name: "swarm-worker-0", Jobs: 14, Revision: 3, Acknowledged: v1alpha1.AckReceived, State: v1alpha1.WorkerReady},
			{Name: "swarm-worker-1", Jobs: 13, Revision: 3, Acknowledged: v1alpha1.AckAssumed, State: v1alpha1.WorkerNotReady},
		},
		Conditions: []metav1.Condition{metCondition(v1alpha1.Ready(1, v1alpha1.ReasonAvailable, "")),
			metCondition(v1alpha1.Converged(1, "all workers have confirmed"))},
	}
	Expect(api.Status().Update(ctx, pool)).To(Succeed())
}

func golden(file string) string {
	GinkgoHelper()
	text, err := os.ReadFile(testcluster.FromRoot("internal", "pool", "codec", "testdata", file))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

func metCondition(condition metav1.Condition) metav1.Condition {
	condition.LastTransitionTime = metav1.Now()
	return condition
}

func newPool(ns, name string, kind v1alpha1.WorkloadKind, workload string) *v1alpha1.WorkerPool {
	return &v1alpha1.WorkerPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       v1alpha1.WorkerPoolSpec{Workers: v1alpha1.WorkloadReference{Kind: kind, Name: workload}},
	}
}

func newConfigMap(pool *v1alpha1.WorkerPool, name, key, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: name, Labels: map[string]string{v1alpha1.LabelPool: pool.Name}},
		Data:       map[string]string{key: text},
	}
}

// newStatefulSet labels its pods with the pool, so that its own revisions carry the label, too.
func newStatefulSet(ns string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "swarm-worker"}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(2)), ServiceName: "swarm-worker",
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "swarm-worker"}},
		Template: podTemplate(map[string]string{"app": "swarm-worker", v1alpha1.LabelPool: "cameras"}),
	}}
}

func podTemplate(labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "worker", Image: "example.test/worker"}}},
	}
}

func newRevision(pool *v1alpha1.WorkerPool, number int64, file codec.File) *appsv1.ControllerRevision {
	GinkgoHelper()
	data := codec.Revision{Strategy: "Sticky", Version: file.Version}
	for n, entry := range file.Workers {
		data.Workers = append(data.Workers, codec.RevisionShare{Worker: entry.Worker, Ordinal: n, Version: entry.Version, Jobs: entry.Jobs})
	}
	raw, err := data.Encode()
	Expect(err).NotTo(HaveOccurred())
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pool.Namespace, Name: fmt.Sprintf("%s-%d", pool.Name, number), Labels: map[string]string{v1alpha1.LabelPool: pool.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pool, v1alpha1.GroupVersion.WithKind("WorkerPool"))},
		},
		Data: runtime.RawExtension{Raw: raw}, Revision: number,
	}
}

// cameras is the pool as the API server has it.
func cameras(ctx context.Context) *v1alpha1.WorkerPool {
	GinkgoHelper()
	pool := &v1alpha1.WorkerPool{}
	Expect(api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "cameras"}, pool)).To(Succeed())
	return pool
}
