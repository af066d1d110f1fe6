package ondemand

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// room is how many bytes of contents are cached.
const room = 32 << 20

// contents caches what was read, by version. It has two generations: when the young one has filled half of the room, the old one is
// dropped and the young one becomes the old. Reading an entry moves it to the young one, so that entries in use stay.
type contents struct {
	room int

	mu         sync.Mutex
	young, old map[types.UID]client.Object
	bytes      int // of the young
}

func newContents(room int) *contents {
	return &contents{room: room, young: map[types.UID]client.Object{}}
}

// read copies the contents of the version in the cache, and reports whether it had them.
func (c *contents) read(known, into client.Object) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept, isYoung := c.young[known.GetUID()]
	if !isYoung {
		kept = c.old[known.GetUID()]
	}
	if kept == nil || kept.GetResourceVersion() != known.GetResourceVersion() {
		return false
	}
	if !isYoung {
		c.keep(kept)
	}
	copyInto(kept, into)
	return true
}

// add caches what was read from the API server.
func (c *contents) add(object client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(object.DeepCopyObject().(client.Object))
}

func (c *contents) keep(object client.Object) {
	object.SetManagedFields(nil)
	if former := c.young[object.GetUID()]; former != nil {
		c.bytes -= size(former)
	}
	c.young[object.GetUID()] = object
	c.bytes += size(object)
	if c.bytes > c.room/2 {
		c.old, c.young, c.bytes = c.young, map[types.UID]client.Object{}, 0
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
