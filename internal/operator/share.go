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
	// mostShared limits the values remembered of each sort. Objects that share a forgotten value keep sharing it.
	mostShared = 4096
	// longestShared limits the key of a value. A value with a longer one is not remembered: it would outlive its pods.
	longestShared = 2 << 10
)

// common deduplicates what many pods have in common: the labels and the owner of a workload's pods, the class and number of spread
// pods. Cached objects must not be changed, so they can share it: a third of what a pod takes in the cache.
type common struct {
	texts  shared[map[string]string]
	owners shared[[]metav1.OwnerReference]
}

func (c *common) share(pod *corev1.Pod) {
	pod.Labels = c.texts.like(pairsOf(pod.Labels), pod.Labels)
	pod.Annotations = c.texts.like(pairsOf(pod.Annotations), pod.Annotations)
	if len(pod.OwnerReferences) == 1 {
		owner := pod.OwnerReferences[0]
		pod.OwnerReferences = c.owners.like(strings.Join([]string{owner.APIVersion, owner.Kind, owner.Name, string(owner.UID)}, " "), pod.OwnerReferences)
	}
}

// pairsOf returns a key that is the same for equal pairs only, whatever users write into annotations.
func pairsOf(pairs map[string]string) string {
	var text []byte
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		text = strconv.AppendQuote(strconv.AppendQuote(text, key), pairs[key])
	}
	return string(text)
}

// shared holds values by key.
type shared[T any] struct {
	lock sync.Mutex
	all  map[string]T
}

// like returns the value that was first seen under that key.
func (s *shared[T]) like(text string, value T) T {
	if len(text) > longestShared {
		return value
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	known, found := s.all[text]
	if found {
		return known
	}
	if s.all == nil || len(s.all) >= mostShared {
		s.all = make(map[string]T)
	}
	s.all[text] = value
	return value
}
