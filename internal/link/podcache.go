package link

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// Lists of pods are at least this far apart, whatever tokens are presented.
	minListInterval = 5 * time.Second
	// listTimeout is independent of the caller's context: a caller that hangs up does not cancel the list for others.
	listTimeout = 5 * time.Second
)

// PodLister lists the pods that may be agents, from the API server and not from a cache, which may lag by any amount. Pods whose deletion
// should be over are excluded.
type PodLister func(ctx context.Context) ([]Identity, error)

// A podCache holds the last list of pods.
type podCache struct {
	list PodLister
	now  func() time.Time

	listLock chan struct{} // held while listing
	lastList time.Time     // when pods were last listed; guarded by turn
	lastErr  error         // of that try, likewise

	mu       sync.Mutex
	pods     map[Identity]struct{}
	listedAt time.Time // when listed was requested
}

func newPodCache(list PodLister, now func() time.Time) *podCache {
	return &podCache{list: list, now: now, listLock: make(chan struct{}, 1)}
}

// contains reports whether a pod existed a short time ago.
func (r *podCache) contains(identity Identity) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, listed := r.pods[identity]
	return listed && r.now().Sub(r.listedAt) < acceptedTTL
}

// refresh lists the pods, unless that was done just now. Concurrent callers wait for it.
func (r *podCache) refresh(ctx context.Context) error {
	select {
	case r.listLock <- struct{}{}:
		defer func() { <-r.listLock }()
	case <-ctx.Done():
		return fmt.Errorf("wait for the list of pods: %w", ctx.Err())
	}
	requestedAt := r.now()
	if !r.lastList.IsZero() && requestedAt.Sub(r.lastList) < minListInterval {
		return r.lastErr
	}
	listCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTimeout)
	defer cancel()
	pods, err := r.list(listCtx)
	if r.lastList, r.lastErr = requestedAt, err; err == nil {
		r.store(pods, requestedAt)
	}
	return err
}

func (r *podCache) store(pods []Identity, listedAt time.Time) {
	set := make(map[Identity]struct{}, len(pods))
	for _, pod := range pods {
		set[pod] = struct{}{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods, r.listedAt = set, listedAt
}
