package operator

import (
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cacheShares counts how many bytes the cache keeps of each namespace. A transform counts an object before it is stored, an event
// handler of each informer releases it when it is deleted. A relist reports objects that are missing from it as deleted.
//
// Objects are counted by UID, so that an object which is created again is not released by the deletion of the former one. Counting an
// object again replaces what was counted before: informers may transform an object twice.
//
// The zero limit allows everything.
type cacheShares struct {
	limit int64
	log   *slog.Logger

	mu         sync.Mutex
	objects    map[types.UID]cachedObject
	namespaces map[string]*namespaceShare
}

type cachedObject struct {
	namespace string
	bytes     int64
}

// A namespaceShare is what the cache keeps of one namespace.
type namespaceShare struct {
	bytes    int64
	objects  int
	exceeded bool // and logged, until half of the limit is free again
}

func newCacheShares(limit int64, log *slog.Logger) *cacheShares {
	return &cacheShares{limit: limit, log: log, objects: map[types.UID]cachedObject{}, namespaces: map[string]*namespaceShare{}}
}

// take counts an object, unless its namespace would exceed the limit by it. It then leaves the count as it was, and returns false.
func (s *cacheShares) take(object client.Object, bytes int64) bool {
	if s.exempts(object) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	share := s.namespaces[object.GetNamespace()]
	if share != nil && share.bytes-s.objects[object.GetUID()].bytes+bytes > s.limit || share == nil && bytes > s.limit {
		return false
	}
	s.put(object, bytes)
	return true
}

// force counts an object of which no less can be kept, whether or not there is room for it.
func (s *cacheShares) force(object client.Object, bytes int64) {
	if s.exempts(object) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(object, bytes)
}

func (s *cacheShares) put(object client.Object, bytes int64) {
	s.remove(object.GetUID())
	share := s.namespaces[object.GetNamespace()]
	if share == nil {
		share = &namespaceShare{}
		s.namespaces[object.GetNamespace()] = share
	}
	share.bytes += bytes
	share.objects++
	share.exceeded = share.exceeded && share.bytes > s.limit/2
	s.objects[object.GetUID()] = cachedObject{object.GetNamespace(), bytes}
}

// release forgets an object that was deleted.
func (s *cacheShares) release(object client.Object) {
	if s.exempts(object) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(object.GetUID())
	share := s.namespaces[object.GetNamespace()]
	switch {
	case share == nil:
	case share.objects == 0:
		delete(s.namespaces, object.GetNamespace())
	default:
		share.exceeded = share.exceeded && share.bytes > s.limit/2
	}
}

func (s *cacheShares) remove(uid types.UID) {
	known, found := s.objects[uid]
	if !found {
		return
	}
	delete(s.objects, uid)
	share := s.namespaces[known.namespace]
	share.bytes -= known.bytes
	share.objects--
}

// warn logs that a namespace has no room, once until half of the limit is free.
func (s *cacheShares) warn(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	share := s.namespaces[namespace]
	if share == nil || share.exceeded {
		return
	}
	share.exceeded = true
	s.log.Warn("namespace exceeds limits.cacheBytesPerNamespace: larger objects of it are read from the API server", "namespace", namespace)
}

// exempts reports whether an object does not count: those of the cluster are not created by users of a namespace.
func (s *cacheShares) exempts(object client.Object) bool {
	return s == nil || s.limit == 0 || object.GetNamespace() == "" || object.GetUID() == ""
}
