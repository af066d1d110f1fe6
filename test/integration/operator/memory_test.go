package operator

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

const megabyte = 1 << 20

// bulky returns workloads and a pod whose containers have a megabyte of environment each, a ConfigMap of about the largest size that the
// API server takes, and a Service with about a megabyte of labels.
func bulky(ns string) []client.Object {
	labels := map[string]string{"app": "bulky"}
	meta := metav1.ObjectMeta{Namespace: ns, GenerateName: "bulky-"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.test/never"}},
		Containers: []corev1.Container{{Name: "any", Image: "localhost/any",
			Env: []corev1.EnvVar{{Name: "BULK", Value: strings.Repeat("x", megabyte)}}}},
	}}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	return []client.Object{
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: new(int32(0)), Selector: selector, Template: template}},
		&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(0)), Selector: selector, Template: template}},
		&corev1.Pod{ObjectMeta: meta, Spec: template.Spec},
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"bulk": strings.Repeat("x", megabyte-len("bulk"))}},
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "bulky-", Labels: manyLabels()},
			Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}, // without a selector no EndpointSlice gets the labels
		},
	}
}

// manyLabels are about a megabyte in memory, and as much as the API server takes together with the managed fields.
func manyLabels() map[string]string {
	labels := map[string]string{}
	for n := range 8_000 {
		labels[fmt.Sprintf("example.test/l-%04d", n)] = strings.Repeat("x", 63)
	}
	return labels
}

// acceptRecorder notes the Accept headers with which an operator lists or watches all ConfigMaps or Services, by resource.
type acceptRecorder struct {
	lock    sync.Mutex
	accepts map[string][]string
}

func (a *acceptRecorder) record(request *http.Request) int {
	resource := path.Base(request.URL.Path)
	chosen := request.URL.Query().Get("labelSelector") != "" // of one pool
	if request.Method == http.MethodGet && !chosen && (resource == "configmaps" || resource == "services") {
		a.lock.Lock()
		defer a.lock.Unlock()
		a.accepts[resource] = append(a.accepts[resource], request.Header.Get("Accept"))
	}
	return 0
}

func (a *acceptRecorder) acceptsOf(resource string) []string {
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
		const inside, outside = 2, 14 // of each kind
		ns, out := namespace(ctx, nil), namespace(ctx, nil)
		asked := &acceptRecorder{accepts: map[string][]string{}}
		proxy := proxyKubeconfigSetting(ctx, asked.record)
		createBulky(ctx, ns, inside) // each watch keeps a buffer for the largest object that it has read
		before, port := profiled(ctx, ns, "first", proxy)
		few := lowestHeap(ctx, port)
		Eventually(before.Terminate()).Should(gexec.Exit(0))
		createBulky(ctx, out, outside)
		_, port = profiled(ctx, ns, "second", proxy)
		Eventually(heap).WithContext(ctx).WithArguments(port).Should(
			BeNumerically("<", few+outside*megabyte/4), "beyond %.0f bytes, a quarter of what any of the kinds takes elsewhere", few)
		for _, resource := range []string{"configmaps", "services"} {
			Expect(asked.acceptsOf(resource)).To(And(Not(BeEmpty()), HaveEach(ContainSubstring(";as=PartialObjectMetadata"))), resource)
		}
	})
})

// createBulky creates this many large objects of each kind, of which those of a namespace are in this one.
func createBulky(ctx context.Context, ns string, count int) {
	GinkgoHelper()
	for range count {
		for _, object := range bulky(ns) {
			Expect(api.Create(ctx, object)).To(Succeed())
		}
		node := bulkyNode()
		Expect(api.Create(ctx, node)).To(Succeed())
		Expect(node.Status.Images).NotTo(BeEmpty())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(api.Delete(ctx, node))).To(Succeed()) })
	}
}

// lowestHeap returns the heap of an operator after a garbage collection, which the requests of this function trigger.
func lowestHeap(ctx context.Context, port string) float64 {
	GinkgoHelper()
	lowest := math.Inf(1)
	Consistently(func() (float64, error) {
		now, err := heap(ctx, port)
		lowest = min(lowest, now)
		return lowest, err
	}).WithTimeout(5 * time.Second).Should(BeNumerically(">", 0))
	return lowest
}

// profiled starts an operator for a namespace, and waits until its caches are synced, and it leads: it writes to a new pool.
func profiled(ctx context.Context, ns, pool, proxy string) (operator *gexec.Session, port string) {
	GinkgoHelper()
	port = ports.Free()
	// It collects garbage so often that all but a tenth of what is allocated is in use.
	operator = startOperator(
		onlyNamespace(ns), "GOGC=10", "GOMEMLIMIT=16MiB", "SWARM_METRICS_ENABLED=true", "SWARM_METRICS_SECURE=false", "SWARM_METRICS_PORT="+port,
		proxy,
	)
	created := createPool(ctx, ns, pool)
	Eventually(isDegraded).WithContext(ctx).WithArguments(created).Should(BeTrue())
	return operator, port
}

// isDegraded reports whether a pool reports that something is wrong.
func isDegraded(ctx context.Context, pool *v1alpha1.WorkerPool) (bool, error) {
	err := api.Get(ctx, client.ObjectKeyFromObject(pool), pool)
	return len(pool.Status.Conditions) > 0, err
}
