package spread

import (
	"context"
	"fmt"
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

// A chronicle is what a watch has seen of the pods of a workload.
type chronicle struct {
	lock  sync.Mutex
	pods  map[types.UID]*corev1.Pod
	lines []string // what has happened, in order: a class, and whether a pod began to serve there or to leave
	low   int      // the fewest that served
}

// watched records a workload's pods from now on, until the spec ends.
func watched(ctx context.Context, workload client.Object) *chronicle {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(api.List(ctx, list, client.InNamespace(namespace), of(workload))).To(Succeed())
	c := &chronicle{pods: map[types.UID]*corev1.Pod{}}
	for n := range list.Items {
		c.pods[list.Items[n].UID] = &list.Items[n]
	}
	c.low = c.serving()
	ctx, leave := context.WithCancel(context.WithoutCancel(ctx))
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}}
	seen, err := api.Watch(ctx, &corev1.PodList{}, from, client.InNamespace(namespace), of(workload))
	Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range seen.ResultChan() {
			c.take(event)
		}
	}()
	DeferCleanup(func() {
		leave()
		<-done
	})
	return c
}

func (c *chronicle) take(event watch.Event) {
	pod, is := event.Object.(*corev1.Pod)
	if !is {
		return
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	before := c.pods[pod.UID]
	switch {
	case available(pod) && (before == nil || !available(before)):
		c.lines = append(c.lines, nodes[pod.Spec.NodeName]+" serves")
	case pod.DeletionTimestamp != nil && before != nil && before.DeletionTimestamp == nil:
		c.lines = append(c.lines, nodes[pod.Spec.NodeName]+" leaves")
	}
	c.pods[pod.UID] = pod
	if event.Type == watch.Deleted {
		delete(c.pods, pod.UID)
	}
	c.low = min(c.low, c.serving())
}

func (c *chronicle) serving() (count int) {
	for _, pod := range c.pods {
		if available(pod) {
			count++
		}
	}
	return count
}

// lowest is the fewest pods that served at any time.
func (c *chronicle) lowest() int {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.low
}

// all is what has happened until now.
func (c *chronicle) all() []string {
	c.lock.Lock()
	defer c.lock.Unlock()
	return slices.Clone(c.lines)
}

// count is how often something has happened.
func (c *chronicle) count(line string) (count int) {
	for _, one := range c.all() {
		if one == line {
			count++
		}
	}
	return count
}

func leaves(class string) string { return fmt.Sprintf("%s leaves", class) }

func serves(class string) string { return fmt.Sprintf("%s serves", class) }
