// Package ack asks workers which list they have loaded, and repeats the question until it gets the expected answer.
//
// It promises that every question is asked at once and then at growing intervals, that the number of requests in progress is bounded per
// namespace and in total, regardless of the number of workers, and that every new answer is signaled. An answer is only what the worker
// said: whether it comes from the right pod and means the right list is for the caller to judge. The package never changes anything.
package ack

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/internal/pool/plan"
)

const (
	maxRequests             = 256 // requests in progress
	maxRequestsPerNamespace = 32  // in one namespace: its workers may be slow, and others must not wait for them
	initialInterval         = 50 * time.Millisecond
	maxInterval             = 2 * time.Second
	maxResponseSize         = 4 << 10
	batchDelay              = 10 * time.Millisecond // answers that arrive together are signaled together
)

// A Trigger triggers a reconcile of a pool.
type Trigger interface {
	After(name types.NamespacedName, delay time.Duration)
}

// Poller asks the workers of many pools.
type Poller struct {
	trigger Trigger
	client  *http.Client
	limiter *fairLimiter

	lock  sync.Mutex
	polls map[types.NamespacedName]map[string]*poll
}

// poll is a question and its progress.
type poll struct {
	plan.AckTarget
	response plan.AckResponse
	polled   bool
	cancel   context.CancelFunc
}

// New returns a Poller that signals new answers.
func New(trigger Trigger) *Poller {
	return &Poller{
		trigger: trigger,
		client: &http.Client{
			Timeout:       maxInterval,
			Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: maxResponseSize}, // no proxy: pods are in the cluster
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		limiter: newFairLimiter(maxRequests),
		polls:   map[types.NamespacedName]map[string]*poll{},
	}
}

// Poll replaces the questions of a pool, and returns the answers so far, by worker. It never blocks. tried is true when each question was
// asked at least once.
func (p *Poller) Poll(pool types.NamespacedName, targets []plan.AckTarget) (responses map[string]plan.AckResponse, allPolled bool) {
	p.lock.Lock()
	defer p.lock.Unlock()
	previous, current := p.polls[pool], make(map[string]*poll, len(targets))
	responses, allPolled = map[string]plan.AckResponse{}, true
	for _, target := range targets {
		active, exists := previous[target.Worker]
		if exists && (active.AckTarget == target || active.response.Satisfies(target)) { // a satisfying answer is also valid for another URL
			delete(previous, target.Worker)
		} else {
			active = p.startPoll(pool, target)
		}
		current[target.Worker] = active
		responses[target.Worker] = active.response
		allPolled = allPolled && active.polled
	}
	for _, old := range previous {
		old.cancel()
	}
	p.polls[pool] = current
	if len(current) == 0 {
		delete(p.polls, pool)
	}
	return responses, allPolled
}

// Forget ends all questions of a pool.
func (p *Poller) Forget(pool types.NamespacedName) { p.Poll(pool, nil) }

func (p *Poller) startPoll(pool types.NamespacedName, target plan.AckTarget) *poll {
	ctx, cancel := context.WithCancel(context.Background())
	started := &poll{AckTarget: target, cancel: cancel}
	go p.pollUntilSatisfied(ctx, pool, started)
	return started
}

// pollUntilSatisfied asks until it gets the expected answer or is canceled.
func (p *Poller) pollUntilSatisfied(ctx context.Context, pool types.NamespacedName, active *poll) {
	for interval := initialInterval; ctx.Err() == nil; interval = min(2*interval, maxInterval) {
		response, err := p.requestLimited(ctx, pool, active)
		if ctx.Err() != nil {
			return
		}
		if p.recordResponse(active, response, err) {
			p.trigger.After(pool, batchDelay)
		}
		if err == nil && response.Satisfies(active.AckTarget) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

// requestLimited waits for a slot of the pool, and asks.
func (p *Poller) requestLimited(ctx context.Context, pool types.NamespacedName, active *poll) (plan.AckResponse, error) {
	if err := p.limiter.acquire(ctx, pool); err != nil {
		return plan.AckResponse{}, err
	}
	defer p.limiter.release(pool)
	return p.request(ctx, active.URL)
}

// recordResponse records the outcome and reports whether it is new.
func (p *Poller) recordResponse(active *poll, response plan.AckResponse, err error) bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	isNew := !active.polled
	active.polled = true
	if err == nil && response != active.response {
		active.response, isNew = response, true
	}
	return isNew
}

func (p *Poller) request(ctx context.Context, url string) (plan.AckResponse, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return plan.AckResponse{}, fmt.Errorf("ask %s: %w", url, err)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return plan.AckResponse{}, fmt.Errorf("ask: %w", err)
	}
	defer resp.Body.Close()
	var response plan.AckResponse
	if resp.StatusCode != http.StatusOK {
		return response, fmt.Errorf("ask %s: %s", url, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxResponseSize)).Decode(&response); err != nil {
		return plan.AckResponse{}, fmt.Errorf("ask %s: %w", url, err)
	}
	return response, nil
}
