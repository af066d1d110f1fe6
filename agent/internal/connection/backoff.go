package connection

import (
	"math/rand/v2"
	"time"
)

const (
	initialBackoff = 200 * time.Millisecond
	// Well below the lease, so that an operator that is back finds its agents before their work has to stop.
	maxBackoff = 3 * time.Second
)

// A backoff doubles its pauses. Each is drawn from the upper half, so that a thousand agents do not return as one.
type backoff struct {
	nextDelay time.Duration
}

func newBackoff() backoff { return backoff{nextDelay: initialBackoff} }

func (b *backoff) takeDelay() time.Duration {
	delay := b.nextDelay/2 + rand.N(b.nextDelay/2)
	b.nextDelay = min(2*b.nextDelay, maxBackoff)
	return delay
}
