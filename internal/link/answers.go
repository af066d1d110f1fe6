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

// answers remembers a bounded number of reviews for a short time.
type answers struct {
	now func() time.Time

	mu    sync.Mutex
	known map[[sha256.Size]byte]answer
}

func newAnswers(now func() time.Time) *answers {
	return &answers{now: now, known: map[[sha256.Size]byte]answer{}}
}

func (a *answers) find(key [sha256.Size]byte) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, found := a.known[key]
	return known, found && a.now().Before(known.until)
}

func (a *answers) keep(key [sha256.Size]byte, given answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	lifetime := trustFor
	if given.err != nil {
		lifetime = distrustFor
	}
	given.until = a.now().Add(lifetime)
	if len(a.known) >= mostAnswers {
		a.makeRoom()
	}
	a.known[key] = given
}

// makeRoom drops what is over, and everything else when that is not enough: asking again is cheap, growing is not.
func (a *answers) makeRoom() {
	now := a.now()
	for key, known := range a.known {
		if !now.Before(known.until) {
			delete(a.known, key)
		}
	}
	if len(a.known) >= mostAnswers {
		clear(a.known)
	}
}
