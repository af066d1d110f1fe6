// Package acknowledge asks workers which list they have loaded, and repeats the question until it gets the expected answer.
//
// It promises that every question is asked at once and then at growing intervals, that the number of requests in progress is bounded per
// namespace and in total, regardless of the number of workers, and that every new answer is signaled. An answer is only what the worker
// said: whether it comes from the right pod and means the right list is for the caller to judge. The package never changes anything.
package acknowledge

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	most        = 256 // requests in progress
	mostOfOne   = 32  // in one namespace: its workers may be slow, and others must not wait for them
	firstPause  = 50 * time.Millisecond
	longestWait = 2 * time.Second
	mostAnswer  = 4 << 10
	gathering   = 10 * time.Millisecond // answers that arrive together are signaled together
)

// Question is addressed to one worker.
type Question struct {
	Worker  string
	URL     string
	UID     string // of its pod
	Version int64  // the expected version
}

// Answer is a worker's response.
type Answer struct {
	Worker  string `json:"worker"`
	UID     string `json:"podUID"`
	Version int64  `json:"version"` // of its own list
	Config  int64  `json:"config"`  // of the file
}

// satisfies reports whether nothing more has to be asked. An answer with a list newer than its file is invalid.
func (a Answer) satisfies(q Question) bool {
	return a.Worker == q.Worker && a.UID == q.UID && a.Version == q.Version && a.Config >= a.Version
}

// A Signal triggers a reconcile of a pool.
type Signal interface {
	After(name types.NamespacedName, delay time.Duration)
}

// Asker asks the workers of many pools.
type Asker struct {
	signal Signal
	client *http.Client
	slots  *slots

	lock  sync.Mutex
	pools map[types.NamespacedName]map[string]*inquiry
}

// inquiry is a question and its progress.
type inquiry struct {
	Question
	answer Answer
	tried  bool
	stop   context.CancelFunc
}

// New returns an Asker that signals new answers.
func New(signal Signal) *Asker {
	return &Asker{
		signal: signal,
		client: &http.Client{
			Timeout:       longestWait,
			Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: mostAnswer}, // no proxy: pods are in the cluster
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		slots: newSlots(most),
		pools: map[types.NamespacedName]map[string]*inquiry{},
	}
}

// Ask replaces the questions of a pool, and returns the answers so far, by worker. It never blocks. tried is true when each question was
// asked at least once.
func (a *Asker) Ask(pool types.NamespacedName, questions []Question) (answers map[string]Answer, tried bool) {
	a.lock.Lock()
	defer a.lock.Unlock()
	before, now := a.pools[pool], make(map[string]*inquiry, len(questions))
	answers, tried = map[string]Answer{}, true
	for _, question := range questions {
		known, asked := before[question.Worker]
		if asked && (known.Question == question || known.answer.satisfies(question)) { // a satisfying answer is also valid for another URL
			delete(before, question.Worker)
		} else {
			known = a.begin(pool, question)
		}
		now[question.Worker] = known
		answers[question.Worker] = known.answer
		tried = tried && known.tried
	}
	for _, old := range before {
		old.stop()
	}
	a.pools[pool] = now
	if len(now) == 0 {
		delete(a.pools, pool)
	}
	return answers, tried
}

// Forget ends all questions of a pool.
func (a *Asker) Forget(pool types.NamespacedName) { a.Ask(pool, nil) }

func (a *Asker) begin(pool types.NamespacedName, question Question) *inquiry {
	ctx, stop := context.WithCancel(context.Background())
	begun := &inquiry{Question: question, stop: stop}
	go a.pursue(ctx, pool, begun)
	return begun
}

// pursue asks until it gets the expected answer or is canceled.
func (a *Asker) pursue(ctx context.Context, pool types.NamespacedName, of *inquiry) {
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, longestWait) {
		answer, err := a.turn(ctx, pool.Namespace, of)
		if ctx.Err() != nil {
			return
		}
		if a.note(of, answer, err) {
			a.signal.After(pool, gathering)
		}
		if err == nil && answer.satisfies(of.Question) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// turn waits for a slot of the namespace, and asks.
func (a *Asker) turn(ctx context.Context, namespace string, of *inquiry) (Answer, error) {
	if err := a.slots.take(ctx, namespace); err != nil {
		return Answer{}, err
	}
	defer a.slots.giveBack(namespace)
	return a.ask(ctx, of.URL)
}

// note records the outcome and reports whether it is new.
func (a *Asker) note(of *inquiry, answer Answer, err error) bool {
	a.lock.Lock()
	defer a.lock.Unlock()
	news := !of.tried
	of.tried = true
	if err == nil && answer != of.answer {
		of.answer, news = answer, true
	}
	return news
}

func (a *Asker) ask(ctx context.Context, url string) (Answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Answer{}, fmt.Errorf("ask %s: %w", url, err)
	}
	response, err := a.client.Do(request)
	if err != nil {
		return Answer{}, fmt.Errorf("ask: %w", err)
	}
	defer response.Body.Close()
	var answer Answer
	if response.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("ask %s: %s", url, response.Status)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, mostAnswer)).Decode(&answer); err != nil {
		return Answer{}, fmt.Errorf("ask %s: %w", url, err)
	}
	return answer, nil
}
