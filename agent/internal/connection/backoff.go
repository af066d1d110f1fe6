package connection

import (
	"math/rand/v2"
	"time"
)

const (
	initialBackoff = 200 * time.Millisecond
	// Well below the lease, so that agents reconnect to a restarted operator before their work must stop.
	maxBackoff = 3 * time.Second
)

// A backoff doubles its pauses. Each pause is a random time from its upper half, so that a thousand agents do not return together.
type backoff struct {
	nextDelay time.Duration
}

func newBackoff() backoff { return backoff{nextDelay: initialBackoff} }

func (b *backoff) takeDelay() time.Duration {
	delay := b.nextDelay/2 + rand.N(b.nextDelay/2)
	b.nextDelay = min(2*b.nextDelay, maxBackoff)
	return delay
}
