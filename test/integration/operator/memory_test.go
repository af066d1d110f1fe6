package operator

import (
	"context"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

const megabyte = 1 << 20

// bulky returns workloads and a pod whose containers have a megabyte of environment each, and a ConfigMap and a Service of about the largest size that
// the API server takes.
func bulky(in string) []client.Object {
	labels := map[string]string{"app": "bulky"}
	meta := metav1.ObjectMeta{Namespace: in, GenerateName: "bulky-"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.test/never"}},
		Containers:      []corev1.Container{{Name: "any", Image: "localhost/any", Env: []corev1.EnvVar{{Name: "BULK", Value: strings.Repeat("x", megabyte)}}}},
	}}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	return []client.Object{
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: new(int32(0)), Selector: selector, Template: template}},
		&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(0)), Selector: selector, Template: template}},
		&corev1.Pod{ObjectMeta: meta, Spec: template.Spec},
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"bulk": strings.Repeat("x", megabyte-len("bulk"))}},
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: in, GenerateName: "bulky-", Annotations: map[string]string{"example.test/bulk": strings.Repeat("x", megabyte/5)}},
			Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: labels},
		},
	}
}

// askedFor notes what an operator asks for when it lists or watches all ConfigMaps or Services, by resource.
type askedFor struct {
	lock    sync.Mutex
	accepts map[string][]string
}

func (a *askedFor) note(request *http.Request) int {
	resource := path.Base(request.URL.Path)
	chosen := request.URL.Query().Get("labelSelector") != "" // those of one pool
	if request.Method == http.MethodGet && !chosen && (resource == "configmaps" || resource == "services") {
		a.lock.Lock()
		defer a.lock.Unlock()
		a.accepts[resource] = append(a.accepts[resource], request.Header.Get("Accept"))
	}
	return 0
}

func (a *askedFor) of(resource string) []string {
	a.lock.Lock()
	defer a.lock.Unlock()
	return slices.Clone(a.accepts[resource])
}

// bulkyNode returns a node that names a megabyte of images, and on which nothing is scheduled.
func bulkyNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "bulky-"},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "example.test/bulky", Effect: corev1.TaintEffectNoSchedule}}},
		Status:     corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: []string{strings.Repeat("x", megabyte)}}}},
	}
}

// heap returns the size of what is allocated in an operator, in bytes.
func heap(ctx context.Context, port string) (float64, error) {
	return gauge(ctx, port, "go_memstats_heap_alloc_bytes")
}

var _ = Describe("The cache", Serial, func() {
	It("[R10/stripped-metadata, R14/heap-profile] keeps little of nodes, and of what is elsewhere or not annotated", func(ctx SpecContext) {
		const each = 20
		in, out, port := namespace(ctx, nil), namespace(ctx, nil), ports.Free()
		asked := &askedFor{accepts: map[string][]string{}}
		for n := range each {
			for _, object := range bulky([]string{in, out}[n%2]) {
				Expect(api.Create(ctx, object)).To(Succeed())
			}
			node := bulkyNode()
			Expect(api.Create(ctx, node)).To(Succeed())
			Expect(node.Status.Images).NotTo(BeEmpty())
			DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(api.Delete(ctx, node))).To(Succeed()) })
		}
		// The limit has garbage collected as soon as there is more than that, so that what stays above it is in use.
		program(only(in), "GOMEMLIMIT=16MiB", "SWARM_METRICS_ENABLED=true", "SWARM_METRICS_SECURE=false", "SWARM_METRICS_PORT="+port,
			behindProxy(ctx, asked.note))
		pool := createPool(ctx, in, "first")
		Eventually(degraded).WithContext(ctx).WithArguments(pool).Should(BeTrue(), "its caches are synced, and it leads")
		Eventually(heap).WithContext(ctx).WithArguments(port).Should(
			And(BeNumerically(">", 0), BeNumerically("<", each*megabyte)), "less than the workloads, pods or ConfigMaps")
		for _, resource := range []string{"configmaps", "services"} {
			Expect(asked.of(resource)).To(And(Not(BeEmpty()), HaveEach(ContainSubstring(";as=PartialObjectMetadata"))), resource)
		}
	})
})

// degraded reports whether a pool says that something is wrong.
func degraded(ctx context.Context, pool *v1alpha1.WorkerPool) (bool, error) {
	err := api.Get(ctx, client.ObjectKeyFromObject(pool), pool)
	return len(pool.Status.Conditions) > 0, err
}
