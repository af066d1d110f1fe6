// Package lease is a worker's own Lease, for users who have to be sure of processes that cannot be observed any more: those of
// a pod that was deleted by force, or of a node that has vanished.
//
// It promises:
//   - The holder of the Lease goes by its own clock, and knows that it has lost the Lease before another process can take it: it loses
//     it when two thirds of its time have passed since the last renewal that succeeded was sent, has a sixth to stop in
//     order, and another one for what must be stopped by force.
//   - A Lease is taken from another holder only after it was not renewed for the whole of its time and a Margin.
//     Times are never compared between machines: each measures what it has seen itself.
//   - A new holder looks for its own pod once it has the Lease. The operator looks for the pod, then for the Lease; so one
//     of the two always sees the other, and a process whose pod was declared gone does not start again.
//
// It speaks to the API server by itself: client-go, whose leader election would release the Lease as soon as renewals
// fail, while jobs are still stopping, would make a worker four times as large.
package lease

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/swarm-io/swarm-operator/internal/process/hostclock"
)

const (
	// MinDuration and MaxDuration are the limits of a Lease's duration.
	MinDuration = 3 * time.Second
	MaxDuration = 10 * time.Minute
	// Margin is how much longer than its duration a Lease has to be silent before others go on.
	Margin = 1500 * time.Millisecond
)

const (
	namePrefix   = "swarm-worker-"
	maxNameBytes = 253
	hashDigits   = 8
)

// Name is that of the Lease of a pod.
func Name(pod string) string {
	if len(namePrefix+pod) <= maxNameBytes {
		return namePrefix + pod
	}
	hash := sha256.Sum256([]byte(pod))
	return namePrefix + pod[:maxNameBytes-len(namePrefix)-hashDigits] + hex.EncodeToString(hash[:hashDigits/2])
}

// TakeoverDelay is how long a Lease with this duration must not have been renewed before others go on.
func TakeoverDelay(duration time.Duration) time.Duration {
	return min(max(duration, time.Second), MaxDuration) + Margin
}

// Validate returns what is wrong with a duration.
func Validate(duration time.Duration) error {
	if duration < MinDuration || duration > MaxDuration || duration%time.Second != 0 {
		return fmt.Errorf("a Lease lasts whole seconds from %s to %s, not %s", MinDuration, MaxDuration, duration)
	}
	return nil
}

// A Record is the content of a Lease.
type Record struct {
	Version  string // changes with every write; "" for a Lease that does not exist
	UID      string // of the Lease itself
	Holder   string // "" without a holder
	Duration time.Duration
}

// What Store may answer.
var (
	ErrNotFound = errors.New("there is no such Lease")
	ErrConflict = errors.New("another client has written it")
)

// Store are the Lease of one pod, and the pod.
type Store interface {
	// Read returns ErrNotFound when there is none.
	Read(ctx context.Context) (Record, error)
	// Write creates a Lease that does not exist (without a version), renews or takes the one that has this version, and
	// without a holder gives it back. It returns ErrConflict when there was another write before.
	Write(ctx context.Context, record Record) (Record, error)
	// PodExists reports whether the pod exists, by its UID.
	PodExists(ctx context.Context) (bool, error)
}

// A State is whether the Lease is held.
type State struct {
	Held      bool
	Problem   string            // why not
	ForceAt   hostclock.Reading // when what has not stopped by then must be stopped by force; zero when it was never held
	ExpiresAt hostclock.Reading // when others may have it
}

// now reads the clocks. Tests replace it.
var now = hostclock.Read

// elapsedSince uses the clock that shows most, because too old is safe and too young is not.
func elapsedSince(since hostclock.Reading) time.Duration { return now().Since(since) }

// ForceTime is what a Lease of some duration leaves for stops by force, before others may have it.
func ForceTime(duration time.Duration) time.Duration { return duration - duration*5/6 }

// Remaining is how long it is until a time of a State, by the clock that shows least.
func Remaining(until hostclock.Reading) time.Duration { return -elapsedSince(until) }
