// Package chronicle is what a watch has seen of the pods of a workload: the fewest that served at any time, the most that were there, and
// in which order they began to serve and to leave.
//
// It promises to miss nothing from the moment it is asked for until the spec ends, as long as the API server stays. It only looks.
package chronicle

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
)

// A Chronicle may be read while it goes on.
type Chronicle struct {
	lock      sync.Mutex
	pods      map[types.UID]*corev1.Pod
	turns     []Turn
	low, high int  // of pods that were available, and of pods that were there
	cut       bool // the watch has ended before the spec
}

// A Turn is that a pod began to serve on a node, or to leave it.
type Turn struct {
	Node   string
	Serves bool
}

// Of records the pods of a namespace that have these labels, from now on, until the spec ends.
func Of(ctx context.Context, api client.WithWatch, namespace string, labels client.MatchingLabels) *Chronicle {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(api.List(ctx, list, client.InNamespace(namespace), labels)).To(Succeed())
	c := begin(list.Items)
	ctx, leave := context.WithCancel(context.WithoutCancel(ctx))
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}}
	seen, err := api.Watch(ctx, &corev1.PodList{}, from, client.InNamespace(namespace), labels)
	Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range seen.ResultChan() {
			c.take(event)
		}
		c.lock.Lock()
		defer c.lock.Unlock()
		c.cut = c.cut || ctx.Err() == nil
	}()
	DeferCleanup(func() {
		leave()
		<-done
	})
	return c
}

func begin(pods []corev1.Pod) *Chronicle {
	c := &Chronicle{pods: map[types.UID]*corev1.Pod{}}
	for n := range pods {
		c.pods[pods[n].UID] = &pods[n]
	}
	c.low, c.high = c.counts()
	return c
}

func (c *Chronicle) take(event watch.Event) {
	pod, is := event.Object.(*corev1.Pod)
	c.lock.Lock()
	defer c.lock.Unlock()
	if !is {
		c.cut = c.cut || event.Type == watch.Error
		return
	}
	before := c.pods[pod.UID]
	switch {
	case Available(pod) && (before == nil || !Available(before)):
		c.turns = append(c.turns, Turn{pod.Spec.NodeName, true})
	case pod.DeletionTimestamp != nil && before != nil && before.DeletionTimestamp == nil:
		c.turns = append(c.turns, Turn{pod.Spec.NodeName, false})
	}
	c.pods[pod.UID] = pod
	if event.Type == watch.Deleted {
		delete(c.pods, pod.UID)
	}
	serving, all := c.counts()
	c.low, c.high = min(c.low, serving), max(c.high, all)
}

func (c *Chronicle) counts() (serving, all int) {
	for _, pod := range c.pods {
		if Available(pod) {
			serving++
		}
		if pod.DeletionTimestamp == nil {
			all++
		}
	}
	return serving, all
}

// whole fails the spec if something may have been missed.
func (c *Chronicle) whole() {
	GinkgoHelper()
	if c.cut {
		Fail("the API server has ended the watch: something may have been missed")
	}
}

// Lowest is the fewest pods that were available at any time.
func (c *Chronicle) Lowest() int {
	GinkgoHelper()
	c.lock.Lock()
	defer c.lock.Unlock()
	c.whole()
	return c.low
}

// Highest is the most pods that were there at any time.
func (c *Chronicle) Highest() int {
	GinkgoHelper()
	c.lock.Lock()
	defer c.lock.Unlock()
	c.whole()
	return c.high
}

// Turns are what has happened until now, in order.
func (c *Chronicle) Turns() []Turn {
	GinkgoHelper()
	c.lock.Lock()
	defer c.lock.Unlock()
	c.whole()
	return slices.Clone(c.turns)
}

// Available reports whether a pod serves.
func Available(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}
