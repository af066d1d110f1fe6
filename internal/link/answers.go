package link

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// A deleted pod may stay trusted this long; a pod that was denied too early is denied this long.
	trustFor, distrustFor = 10 * time.Second, 2 * time.Second
	mostAnswers           = 4096
)

type answer struct {
	identity Identity
	err      error
	until    time.Time
}

// answers remembers a bounded number of reviews for a short time. Denials are kept separately: strangers can cause any number
// of them, and must not evict other answers.
type answers struct {
	now func() time.Time

	mu              sync.Mutex
	trusted, denied map[[sha256.Size]byte]answer
}

func newAnswers(now func() time.Time) *answers {
	return &answers{now: now, trusted: map[[sha256.Size]byte]answer{}, denied: map[[sha256.Size]byte]answer{}}
}

func (a *answers) find(key [sha256.Size]byte) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, found := a.trusted[key]
	if !found {
		known, found = a.denied[key]
	}
	return known, found && a.now().Before(known.until)
}

// keep replaces what was known about a token.
func (a *answers) keep(key [sha256.Size]byte, given answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.trusted, key)
	into, lifetime := a.trusted, trustFor
	if given.err != nil {
		into, lifetime = a.denied, distrustFor
	}
	given.until = a.now().Add(lifetime)
	if len(into) >= mostAnswers {
		a.makeRoom(into)
	}
	into[key] = given
}

// makeRoom drops expired answers, and all others if that is not enough: asking again is cheap, growing is not.
func (a *answers) makeRoom(in map[[sha256.Size]byte]answer) {
	now := a.now()
	for key, known := range in {
		if !now.Before(known.until) {
			delete(in, key)
		}
	}
	if len(in) >= mostAnswers {
		clear(in)
	}
}
