package uplink

import (
	"math/rand/v2"
	"time"
)

const (
	firstPause = 200 * time.Millisecond
	// Well below the lease, so that an operator that is back finds its agents before their work has to stop.
	longestPause = 3 * time.Second
)

// A backoff doubles its pauses. Each is drawn from the upper half, so that a thousand agents do not return as one.
type backoff struct {
	next time.Duration
}

func newBackoff() backoff { return backoff{next: firstPause} }

func (b *backoff) step() time.Duration {
	pause := b.next/2 + rand.N(b.next/2)
	b.next = min(2*b.next, longestPause)
	return pause
}
