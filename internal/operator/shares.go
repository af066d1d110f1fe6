package operator

import (
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cacheShares counts how many bytes the cache keeps of the large objects of each namespace. A transform counts an object before it is
// stored, and an event handler of each informer releases it when it is deleted. A relist reports missing objects as deleted.
//
// Objects are counted by UID, so that deleting an object does not release one created again under its name. Counting an object again
// replaces the former count: informers may transform an object twice.
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

// keep reports whether all of an object may be kept, and then counts it. Small objects are always kept and never counted: many small
// Tasks do not push a Swarm out of the cache.
func (s *cacheShares) keep(object client.Object) bool {
	if s.exempts(object) {
		return true
	}
	bytes := sizeOf(object)
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes <= smallOutline {
		s.remove(object.GetUID())
		return true
	}
	return s.take(object, bytes)
}

// take counts a large object, unless it would exceed the limit of its namespace.
func (s *cacheShares) take(object client.Object, bytes int64) bool {
	s.remove(object.GetUID())
	namespace := object.GetNamespace()
	share, known := s.namespaces[namespace]
	if !known {
		share = &namespaceShare{}
	}
	if share.bytes+bytes > s.limit {
		if known { // an object that exceeds the limit alone could be logged again and again
			s.warn(namespace, share)
		}
		return false
	}
	share.bytes += bytes
	share.objects++
	s.namespaces[namespace], s.objects[object.GetUID()] = share, cachedObject{namespace, bytes}
	return true
}

// release forgets an object that was deleted.
func (s *cacheShares) release(object client.Object) {
	if s.exempts(object) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(object.GetUID())
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
	share.exceeded = share.exceeded && share.bytes > s.limit/2
	if share.objects == 0 {
		delete(s.namespaces, known.namespace)
	}
}

// warn logs that a namespace has no room, once until half of the limit is free.
func (s *cacheShares) warn(namespace string, share *namespaceShare) {
	if !share.exceeded {
		share.exceeded = true
		s.log.Warn("namespace exceeds limits.cacheBytesPerNamespace: larger objects of it are read from the API server", "namespace", namespace)
	}
}

// exempts reports whether an object does not count: users of a namespace do not create cluster-scoped objects.
func (s *cacheShares) exempts(object client.Object) bool {
	return s == nil || s.limit == 0 || object.GetNamespace() == "" || object.GetUID() == ""
}
