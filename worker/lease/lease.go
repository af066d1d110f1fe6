// Package lease implements a worker's own Lease, for users who must be sure about processes that cannot be observed: those of a pod that
// was deleted by force, or of a node that has vanished.
//
// It promises:
//   - The holder of the Lease relies on its own clock, and knows that it has lost the Lease before another process can take it: it loses
//     the Lease when two thirds of the duration have passed since the last successful renewal was sent. It then has a sixth of the duration
//     for orderly stops, and another sixth for forced ones.
//   - A Lease is taken from another holder only after it was not renewed for its whole duration and a Margin. Times are never compared
//     between machines: each machine measures what it has observed itself.
//   - A new holder checks that its own pod exists once it has the Lease. The operator reads the pod first and then the Lease. So one of the
//     two always sees the other, and a process whose pod was declared gone does not start again.
//
// It uses the API server without client-go: that would make a worker four times as large, and its leader election releases the Lease as
// soon as renewals fail, while jobs are still stopping.
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
	// Margin is how much longer than its duration a Lease must be without a renewal before others take over.
	Margin = 1500 * time.Millisecond
)

const (
	namePrefix   = "swarm-worker-"
	maxNameBytes = 253
	hashDigits   = 8
)

// Name returns the name of the Lease of a pod.
func Name(pod string) string {
	if len(namePrefix+pod) <= maxNameBytes {
		return namePrefix + pod
	}
	hash := sha256.Sum256([]byte(pod))
	return namePrefix + pod[:maxNameBytes-len(namePrefix)-hashDigits] + hex.EncodeToString(hash[:hashDigits/2])
}

// TakeoverDelay returns how long a Lease of this duration must be without a renewal before others take over.
func TakeoverDelay(duration time.Duration) time.Duration {
	return min(max(duration, time.Second), MaxDuration) + Margin
}

// Validate returns an error for an invalid duration.
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

// The errors of a Store.
var (
	ErrNotFound = errors.New("the Lease does not exist")
	ErrConflict = errors.New("another client has written the Lease")
)

// A Store reads and writes the Lease of one pod, and looks up the pod.
type Store interface {
	// Read returns ErrNotFound if the Lease does not exist.
	Read(ctx context.Context) (Record, error)
	// Write creates a Lease (without a version), renews or acquires the one that has this version, or releases it (without a holder). It
	// returns ErrConflict if another write came first.
	Write(ctx context.Context, record Record) (Record, error)
	// PodExists reports whether the pod exists, by its UID.
	PodExists(ctx context.Context) (bool, error)
}

// A State says whether the Lease is held.
type State struct {
	Held      bool
	Problem   string            // why not
	ForceAt   hostclock.Reading // when jobs that still run must be stopped by force; zero when it was never held
	ExpiresAt hostclock.Reading // when others may hold it
}

// now reads the clocks. Tests replace it.
var now = hostclock.Read

// elapsedSince uses the clock that shows the most: too old is safe, too young is not.
func elapsedSince(since hostclock.Reading) time.Duration { return now().Since(since) }

// ForceTime returns the time that a Lease of this duration leaves for forced stops, before others may hold it.
func ForceTime(duration time.Duration) time.Duration { return duration - duration*5/6 }

// Remaining returns the time until a time of a State, by the clock that shows the least.
func Remaining(until hostclock.Reading) time.Duration { return -elapsedSince(until) }
