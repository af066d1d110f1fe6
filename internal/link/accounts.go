package link

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// An account is a service account as named in tokens and reviews.
type account struct{ username, uid string }

// accounts remembers which service accounts the API server has recently vouched for.
type accounts struct {
	now func() time.Time

	mu    sync.Mutex
	known map[account]*voucher
}

// A voucher is what is known about one account.
type voucher struct {
	turn  chan struct{} // held while the API server is asked
	until time.Time
}

func newAccounts(now func() time.Time) *accounts {
	return &accounts{now: now, known: map[account]*voucher{}}
}

// vouch records that a review, requested at the given time, has found the account.
func (a *accounts) vouch(known account, asked time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.voucherOf(known)
	if until := asked.Add(trustFor); until.After(of.until) {
		of.until = until
	}
}

func (a *accounts) vouched(known account) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.known[known]
	return of != nil && a.now().Before(of.until)
}

// acquire waits until no other goroutine is asking the API server about the account.
func (a *accounts) acquire(ctx context.Context, known account) (release func(), err error) {
	a.mu.Lock()
	turn := a.voucherOf(known).turn
	a.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the review of another token of %s: %w", known.username, ctx.Err())
	}
}

func (a *accounts) voucherOf(known account) *voucher {
	of := a.known[known]
	if of == nil {
		a.makeRoom()
		of = &voucher{turn: make(chan struct{}, 1)}
		a.known[known] = of
	}
	return of
}

// makeRoom drops expired entries. Only accounts with a verified token get here, so there are no more entries than accounts
// exist; forgetting one costs a review.
func (a *accounts) makeRoom() {
	if len(a.known) < mostAnswers {
		return
	}
	now := a.now()
	for key, of := range a.known {
		if !now.Before(of.until) {
			delete(a.known, key)
		}
	}
	if len(a.known) >= mostAnswers {
		clear(a.known)
	}
}
