package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

const capacity = "karpenter.sh/capacity-type"

var (
	noon   = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	tenOf4 = spread.Policy{MinOnDemand: 4, SpotPercent: 100}
	web    = survey.Key{Kind: v1alpha1.WorkloadDeployment, NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}}
	db     = survey.Key{Kind: v1alpha1.WorkloadStatefulSet, NamespacedName: types.NamespacedName{Namespace: "shop", Name: "db"}}
)

// standard returns the default settings.
func standard() survey.Settings {
	return survey.Settings{Prefix: v1alpha1.Prefix, Spot: []survey.Label{{Key: capacity, Value: "spot"}}, OnDemand: []survey.Label{{Key: capacity, Value: "on-demand"}}}
}

// wished returns the annotations of a workload that wants to be spread.
func wished(policy spread.Policy) map[string]string {
	return map[string]string{
		"swarm.io/spread": v1alpha1.SpreadEnabled, "swarm.io/min-on-demand": strconv.Itoa(policy.MinOnDemand), "swarm.io/spot-percentage": strconv.Itoa(policy.SpotPercent),
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

// replica returns a pod of the Deployment, created from the template with that hash.
func replica(name, hash string, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: web.Namespace, Name: name, Annotations: annotations, Labels: map[string]string{"pod-template-hash": hash}, CreationTimestamp: metav1.Time{Time: noon},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: web.Name + "-" + hash, Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: "some-node"},
	}
}

// numbered returns a pod placed by admission.
func numbered(name, hash string, number int, class spread.Class) *corev1.Pod {
	return replica(name, hash, map[string]string{"swarm.io/spread-number": strconv.Itoa(number), "swarm.io/spread-class": string(class)})
}

// A store is the cache that a desk reads: it may lag, and it may fail.
type store struct {
	lock    sync.Mutex
	objects map[string]client.Object
	pods    map[string]*corev1.Pod
	failing error
	told    func(*corev1.Pod) // called for each pod that appears
}

func newStore(t testing.TB, objects ...client.Object) *store {
	t.Helper()
	c := &store{objects: map[string]client.Object{}, pods: map[string]*corev1.Pod{}}
	c.sees(objects...)
	return c
}

func called(object client.Object, key client.ObjectKey) string {
	return fmt.Sprintf("%T %s", object, key)
}

func (c *store) sees(objects ...client.Object) {
	for _, object := range objects {
		c.keep(object)
		if pod, isPod := object.(*corev1.Pod); isPod && c.told != nil {
			c.told(pod)
		}
	}
}

func (c *store) keep(object client.Object) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if pod, isPod := object.(*corev1.Pod); isPod {
		c.pods[pod.Name] = pod
		return
	}
	c.objects[called(object, client.ObjectKeyFromObject(object))] = object
}

func (c *store) loses(pods ...string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, name := range pods {
		delete(c.pods, name)
	}
}

func (c *store) fails(err error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.failing = err
}

// Get implements client.Reader.
func (c *store) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	found := c.objects[called(into, key)]
	switch into := into.(type) {
	case *appsv1.Deployment:
		if of, is := found.(*appsv1.Deployment); is {
			*into = *of
		}
	case *appsv1.StatefulSet:
		if of, is := found.(*appsv1.StatefulSet); is {
			*into = *of
		}
	case *corev1.Node:
		if of, is := found.(*corev1.Node); is {
			*into = *of
		}
	case *corev1.Namespace:
		if of, is := found.(*corev1.Namespace); is {
			*into = *of
		}
	}
	if found == nil && c.failing == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	return c.failing
}

// replicas implements survey.PodLister. Like the real one it copies the list, but not the pods.
func (c *store) replicas(_ context.Context, of survey.Key) ([]*corev1.Pod, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	pods := make([]*corev1.Pod, 0, len(c.pods))
	for _, pod := range c.pods {
		if owner, found := survey.OwnerOf(pod); found && owner == of {
			pods = append(pods, pod)
		}
	}
	return pods, c.failing
}

// List implements client.Reader. It is not used here.
func (*store) List(context.Context, client.ObjectList, ...client.ListOption) error { return errBroken }

var errBroken = errors.New("broken")

// mix counts the pods by class.
func mix(pods map[string]Answer) spread.Distribution {
	var made spread.Distribution
	for answer := range maps.Values(pods) {
		if answer.Class == spread.Spot {
			made.Spot++
		} else {
			made.OnDemand++
		}
	}
	return made
}

// uncounted returns refusals that no test checks.
func uncounted() *limit.Refusals { return limit.NewRefusals(prometheus.NewRegistry()) }
