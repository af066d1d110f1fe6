package ondemand

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxContentBytes is how many bytes of contents are cached.
const maxContentBytes = 32 << 20

// contentCache caches what was read, by version. It has two generations: when the young one has filled half of the room, the old one is
// dropped and the young one becomes the old. Reading an entry moves it to the young one, so that entries in use stay.
type contentCache struct {
	maxBytes int

	mu               sync.Mutex
	recent, previous map[types.UID]client.Object
	recentBytes      int // of the young
}

func newContentCache(maxBytes int) *contentCache {
	return &contentCache{maxBytes: maxBytes, recent: map[types.UID]client.Object{}}
}

// copyTo copies the contents of the version in the cache, and reports whether it had them.
func (c *contentCache) copyTo(cached, into client.Object) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, isRecent := c.recent[cached.GetUID()]
	if !isRecent {
		entry = c.previous[cached.GetUID()]
	}
	if entry == nil || entry.GetResourceVersion() != cached.GetResourceVersion() {
		return false
	}
	if !isRecent {
		c.store(entry)
	}
	copyInto(entry, into)
	return true
}

// add caches what was read from the API server.
func (c *contentCache) add(object client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store(object.DeepCopyObject().(client.Object))
}

func (c *contentCache) store(object client.Object) {
	object.SetManagedFields(nil)
	if replaced := c.recent[object.GetUID()]; replaced != nil {
		c.recentBytes -= size(replaced)
	}
	c.recent[object.GetUID()] = object
	c.recentBytes += size(object)
	if c.recentBytes > c.maxBytes/2 {
		c.previous, c.recent, c.recentBytes = c.recent, map[types.UID]client.Object{}, 0
	}
}

// size estimates the size of an object in bytes.
func size(object client.Object) int {
	const fixed = 2 << 10
	bytes := fixed
	for key, value := range object.GetAnnotations() {
		bytes += len(key) + len(value)
	}
	for key, value := range object.GetLabels() {
		bytes += len(key) + len(value)
	}
	switch object := object.(type) {
	case *corev1.ConfigMap:
		for key, value := range object.Data {
			bytes += len(key) + len(value)
		}
		for key, value := range object.BinaryData {
			bytes += len(key) + len(value)
		}
	case *corev1.Service:
		bytes += object.Size()
	}
	return bytes
}
