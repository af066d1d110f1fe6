package operator

import (
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cacheQuota counts how many bytes the cache keeps of the large objects of each namespace. A transform counts an object before it is
// stored, and an event handler of each informer releases it when it is deleted. A relist reports missing objects as deleted.
//
// Objects are counted by UID, so that deleting an object does not release one created again under its name. Counting an object again
// replaces the former count: informers may transform an object twice.
//
// The zero limit allows everything.
type cacheQuota struct {
	limit int64
	log   *slog.Logger

	mu         sync.Mutex
	objects    map[types.UID]cachedObject
	namespaces map[string]*namespaceUsage
}

type cachedObject struct {
	namespace string
	bytes     int64
}

// A namespaceUsage is what the cache keeps of one namespace.
type namespaceUsage struct {
	bytes    int64
	objects  int
	exceeded bool // and logged, until half of the limit is free again
}

func newCacheQuota(limit int64, log *slog.Logger) *cacheQuota {
	return &cacheQuota{limit: limit, log: log, objects: map[types.UID]cachedObject{}, namespaces: map[string]*namespaceUsage{}}
}

// admit reports whether all of an object may be kept, and then counts it. Small objects are always kept and never counted: many small
// Tasks do not push a Swarm out of the cache.
func (s *cacheQuota) admit(object client.Object) bool {
	if s.isExempt(object) {
		return true
	}
	bytes := sizeOf(object)
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes <= trimmedOutlineBytes {
		s.remove(object.GetUID())
		return true
	}
	return s.reserve(object, bytes)
}

// reserve counts a large object, unless it would exceed the limit of its namespace.
func (s *cacheQuota) reserve(object client.Object, bytes int64) bool {
	s.remove(object.GetUID())
	namespace := object.GetNamespace()
	usage, found := s.namespaces[namespace]
	if !found {
		usage = &namespaceUsage{}
	}
	if usage.bytes+bytes > s.limit {
		if found { // an object that exceeds the limit alone could be logged again and again
			s.warn(namespace, usage)
		}
		return false
	}
	usage.bytes += bytes
	usage.objects++
	s.namespaces[namespace], s.objects[object.GetUID()] = usage, cachedObject{namespace, bytes}
	return true
}

// release forgets an object that was deleted.
func (s *cacheQuota) release(object client.Object) {
	if s.isExempt(object) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(object.GetUID())
}

func (s *cacheQuota) remove(uid types.UID) {
	counted, found := s.objects[uid]
	if !found {
		return
	}
	delete(s.objects, uid)
	usage := s.namespaces[counted.namespace]
	usage.bytes -= counted.bytes
	usage.objects--
	usage.exceeded = usage.exceeded && usage.bytes > s.limit/2
	if usage.objects == 0 {
		delete(s.namespaces, counted.namespace)
	}
}

// warn logs that a namespace has no room, once until half of the limit is free.
func (s *cacheQuota) warn(namespace string, usage *namespaceUsage) {
	if !usage.exceeded {
		usage.exceeded = true
		s.log.Warn("namespace exceeds limits.cacheBytesPerNamespace: larger objects of it are read from the API server", "namespace", namespace)
	}
}

// isExempt reports whether an object does not count: users of a namespace do not create cluster-scoped objects.
func (s *cacheQuota) isExempt(object client.Object) bool {
	return s == nil || s.limit == 0 || object.GetNamespace() == "" || object.GetUID() == ""
}
