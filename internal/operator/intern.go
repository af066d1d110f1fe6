package operator

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// maxInterned limits the values remembered of each sort. Objects that share a forgotten value keep sharing it.
	maxInterned = 4096
	// maxInternedKey limits the key of a value. A value with a longer one is not remembered: it would outlive its pods.
	maxInternedKey = 2 << 10
)

// podInterner deduplicates what many pods have in common: the labels and the owner of a workload's pods, the class and number of spread
// pods. Cached objects must not be changed, so they can share it: a third of what a pod takes in the cache.
type podInterner struct {
	maps   interner[map[string]string]
	owners interner[[]metav1.OwnerReference]
}

func (c *podInterner) intern(pod *corev1.Pod) {
	pod.Labels = c.maps.intern(mapKey(pod.Labels), pod.Labels)
	pod.Annotations = c.maps.intern(mapKey(pod.Annotations), pod.Annotations)
	if len(pod.OwnerReferences) == 1 {
		owner := pod.OwnerReferences[0]
		pod.OwnerReferences = c.owners.intern(strings.Join([]string{owner.APIVersion, owner.Kind, owner.Name, string(owner.UID)}, " "),
			pod.OwnerReferences)
	}
}

// mapKey returns a key that is the same for equal pairs only, whatever users write into annotations.
func mapKey(pairs map[string]string) string {
	var text []byte
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		text = strconv.AppendQuote(strconv.AppendQuote(text, key), pairs[key])
	}
	return string(text)
}

// interner holds values by key.
type interner[T any] struct {
	lock   sync.Mutex
	values map[string]T
}

// intern returns the value that was first seen under that key.
func (s *interner[T]) intern(key string, value T) T {
	if len(key) > maxInternedKey {
		return value
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	interned, found := s.values[key]
	if found {
		return interned
	}
	if s.values == nil || len(s.values) >= maxInterned {
		s.values = make(map[string]T)
	}
	s.values[key] = value
	return value
}
