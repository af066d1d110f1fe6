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
	// mostShared is how much is remembered of each sort. What is forgotten stays shared among those who have it.
	mostShared = 4096
	// longestShared is how long the text is that stands for a value. A longer one is not remembered: it would stay when its pods are gone.
	longestShared = 2 << 10
)

// common is what many pods say alike: the labels and the owner of a workload's, the class and number of all that are spread. Nobody may
// change what is in a cache, so they can have it in one place: a third of what a pod takes there.
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

// pairsOf is a text that is the same for the same pairs, and for no others, whatever people write into annotations.
func pairsOf(pairs map[string]string) string {
	var text []byte
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		text = strconv.AppendQuote(strconv.AppendQuote(text, key), pairs[key])
	}
	return string(text)
}

// shared are values, each under a text that stands for it.
type shared[T any] struct {
	lock sync.Mutex
	all  map[string]T
}

// like is the value that was first seen under that text.
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
