package link

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// Lists of pods are at least this far apart, whatever tokens are presented.
	listEvery = 5 * time.Second
	// listWithin is independent of the caller's context: a caller that hangs up does not cancel the list for others.
	listWithin = 5 * time.Second
)

// Pods lists the pods that may be agents, from the API server and not from a cache, which may lag by any amount. Pods past
// the end of their deletion are excluded.
type Pods func(ctx context.Context) ([]Identity, error)

// A roster holds the last list of pods.
type roster struct {
	list Pods
	now  func() time.Time

	turn  chan struct{} // held while listing
	tried time.Time     // when pods were last listed; guarded by turn
	err   error         // of that try, likewise

	mu     sync.Mutex
	listed map[Identity]struct{}
	since  time.Time // when listed was requested
}

func newRoster(list Pods, now func() time.Time) *roster {
	return &roster{list: list, now: now, turn: make(chan struct{}, 1)}
}

// holds reports whether a pod existed a short time ago.
func (r *roster) holds(identity Identity) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, listed := r.listed[identity]
	return listed && r.now().Sub(r.since) < trustFor
}

// renew lists the pods, unless that was done just now. Concurrent callers wait for it.
func (r *roster) renew(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return fmt.Errorf("wait for the list of pods: %w", ctx.Err())
	}
	asked := r.now()
	if !r.tried.IsZero() && asked.Sub(r.tried) < listEvery {
		return r.err
	}
	listing, cancel := context.WithTimeout(context.WithoutCancel(ctx), listWithin)
	defer cancel()
	pods, err := r.list(listing)
	if r.tried, r.err = asked, err; err == nil {
		r.keep(pods, asked)
	}
	return err
}

func (r *roster) keep(pods []Identity, since time.Time) {
	listed := make(map[Identity]struct{}, len(pods))
	for _, pod := range pods {
		listed[pod] = struct{}{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listed, r.since = listed, since
}
