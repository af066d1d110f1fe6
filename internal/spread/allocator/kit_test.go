package allocator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	"github.com/swarm-io/swarm-operator/internal/testkit/build"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

var (
	noon, web, db = build.Noon, build.Web, build.DB
	newPod        = build.Pod
	testSettings  = build.Settings
	tenOf4        = split.Policy{MinOnDemand: 4, SpotPercent: 100}
)

// spreadAnnotations returns the annotations of a workload that wants to be spread.
func spreadAnnotations(policy split.Policy) map[string]string {
	return map[string]string{
		"swarm.io/spread": v1alpha1.SpreadEnabled, "swarm.io/min-on-demand": strconv.Itoa(policy.MinOnDemand),
		"swarm.io/spot-percentage": strconv.Itoa(policy.SpotPercent),
	}
}

func deployment(replicas int, annotations map[string]string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name, Annotations: annotations},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(replicas))},
	}
}

func statefulSet(first int, annotations map[string]string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: db.Namespace, Name: db.Name, Annotations: annotations},
		Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(3)), Ordinals: &appsv1.StatefulSetOrdinals{Start: int32(first)}},
	}
}

// newPlacedPod returns a pod placed by admission.
func newPlacedPod(name, hash string, number int, class split.Class) *corev1.Pod {
	return newPod(name, hash, map[string]string{"swarm.io/spread-number": strconv.Itoa(number), "swarm.io/spread-class": string(class)})
}

// A fakeCache is the cache that an allocator reads: it may lag, and it may fail.
type fakeCache struct {
	lock    sync.Mutex
	objects map[string]client.Object
	pods    map[string]*corev1.Pod
	err     error
	onPod   func(*corev1.Pod) // called for each pod that appears
}

func newFakeCache(t testing.TB, objects ...client.Object) *fakeCache {
	t.Helper()
	c := &fakeCache{objects: map[string]client.Object{}, pods: map[string]*corev1.Pod{}}
	c.set(objects...)
	return c
}

func objectKey(object client.Object, key client.ObjectKey) string {
	return fmt.Sprintf("%T %s", object, key)
}

func (c *fakeCache) set(objects ...client.Object) {
	for _, object := range objects {
		c.store(object)
		if pod, isPod := object.(*corev1.Pod); isPod && c.onPod != nil {
			c.onPod(pod)
		}
	}
}

func (c *fakeCache) store(object client.Object) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if pod, isPod := object.(*corev1.Pod); isPod {
		c.pods[pod.Name] = pod
		return
	}
	c.objects[objectKey(object, client.ObjectKeyFromObject(object))] = object
}

func (c *fakeCache) deletePods(pods ...string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, name := range pods {
		delete(c.pods, name)
	}
}

func (c *fakeCache) failWith(err error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.err = err
}

// Get implements client.Reader.
func (c *fakeCache) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	object := c.objects[objectKey(into, key)]
	switch into := into.(type) {
	case *appsv1.Deployment:
		if typed, is := object.(*appsv1.Deployment); is {
			*into = *typed
		}
	case *appsv1.StatefulSet:
		if typed, is := object.(*appsv1.StatefulSet); is {
			*into = *typed
		}
	case *corev1.Node:
		if typed, is := object.(*corev1.Node); is {
			*into = *typed
		}
	case *corev1.Namespace:
		if typed, is := object.(*corev1.Namespace); is {
			*into = *typed
		}
	}
	if object == nil && c.err == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	return c.err
}

// listPods implements snapshot.PodLister. Like the real one it copies the list, but not the pods.
func (c *fakeCache) listPods(_ context.Context, key workload.Key) ([]*corev1.Pod, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	pods := make([]*corev1.Pod, 0, len(c.pods))
	for _, pod := range c.pods {
		if owner, found := workload.OwnerOf(pod); found && owner == key {
			pods = append(pods, pod)
		}
	}
	return pods, c.err
}

// List implements client.Reader. It is not used here.
func (*fakeCache) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errBroken
}

var errBroken = errors.New("broken")

// distributionOf counts the pods by class.
func distributionOf(pods map[string]Placement) split.Distribution {
	var distribution split.Distribution
	for answer := range maps.Values(pods) {
		if answer.Class == split.Spot {
			distribution.Spot++
		} else {
			distribution.OnDemand++
		}
	}
	return distribution
}

// testRefusals returns refusals that no test checks.
func testRefusals() *limit.Refusals { return limit.NewRefusals(prometheus.NewRegistry()) }
