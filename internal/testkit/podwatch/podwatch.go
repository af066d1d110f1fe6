// Package podwatch records what a watch shows of the pods of a workload: the fewest that were available at any time, the most that existed,
// and in which order they became available and began to terminate.
//
// It promises to miss nothing from its start until the end of the spec, as long as the API server runs. It only reads.
package podwatch

import (
	"context"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// A Recorder may be read while it records.
type Recorder struct {
	lock            sync.Mutex
	pods            map[types.UID]*corev1.Pod
	changes         []Change
	lowest, highest int  // of pods that were available, and of pods that existed
	interrupted     bool // the watch has ended before the spec
}

// A Change records that a pod became available on a node, or began to terminate.
type Change struct {
	Node      string
	Available bool
}

// Watch records the pods with these labels in a namespace until the spec ends.
func Watch(ctx context.Context, api client.WithWatch, namespace string, labels client.MatchingLabels) *Recorder {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(api.List(ctx, list, client.InNamespace(namespace), labels)).To(Succeed())
	c := newRecorder(list.Items)
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}}
	handler := testcluster.WatchHandler{Event: c.handle, Interrupted: c.markInterrupted}
	testcluster.Watch(ctx, api, &corev1.PodList{}, handler, from, client.InNamespace(namespace), labels)
	return c
}

func newRecorder(pods []corev1.Pod) *Recorder {
	c := &Recorder{pods: map[types.UID]*corev1.Pod{}}
	for n := range pods {
		c.pods[pods[n].UID] = &pods[n]
	}
	c.lowest, c.highest = c.counts()
	return c
}

func (c *Recorder) handle(event watch.Event) {
	pod, is := event.Object.(*corev1.Pod)
	c.lock.Lock()
	defer c.lock.Unlock()
	if !is {
		c.interrupted = c.interrupted || event.Type == watch.Error
		return
	}
	before := c.pods[pod.UID]
	switch {
	case IsAvailable(pod) && (before == nil || !IsAvailable(before)):
		c.changes = append(c.changes, Change{pod.Spec.NodeName, true})
	case pod.DeletionTimestamp != nil && before != nil && before.DeletionTimestamp == nil:
		c.changes = append(c.changes, Change{pod.Spec.NodeName, false})
	}
	c.pods[pod.UID] = pod
	if event.Type == watch.Deleted {
		delete(c.pods, pod.UID)
	}
	serving, all := c.counts()
	c.lowest, c.highest = min(c.lowest, serving), max(c.highest, all)
}

func (c *Recorder) counts() (available, total int) {
	for _, pod := range c.pods {
		if IsAvailable(pod) {
			available++
		}
		if pod.DeletionTimestamp == nil {
			total++
		}
	}
	return available, total
}

func (c *Recorder) markInterrupted() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.interrupted = true
}

// expectUninterrupted fails the spec if the recorder may have missed something.
func (c *Recorder) expectUninterrupted() {
	GinkgoHelper()
	if c.interrupted {
		Fail("the API server has ended the watch: something may have been missed")
	}
}

// Lowest returns the fewest pods that were available at any time.
func (c *Recorder) Lowest() int {
	GinkgoHelper()
	c.lock.Lock()
	defer c.lock.Unlock()
	c.expectUninterrupted()
	return c.lowest
}

// Highest returns the most pods that existed at any time.
func (c *Recorder) Highest() int {
	GinkgoHelper()
	c.lock.Lock()
	defer c.lock.Unlock()
	c.expectUninterrupted()
	return c.highest
}

// Changes returns all changes so far, in order.
func (c *Recorder) Changes() []Change {
	GinkgoHelper()
	c.lock.Lock()
	defer c.lock.Unlock()
	c.expectUninterrupted()
	return slices.Clone(c.changes)
}

// IsAvailable reports whether a pod is available.
func IsAvailable(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}
