package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/swarm-io/swarm-operator/internal/process/hostclock"
)

// Limits of times that are a fraction of a Lease's duration.
const (
	minRetryPeriod, maxRetryPeriod = 200 * time.Millisecond, 2 * time.Second
	maxRequestTimeout              = 10 * time.Second
)

// errPodGone ends all attempts.
var errPodGone = errors.New("the pod no longer exists on the API server, and other workers may have its jobs")

// A Keeper acquires a Lease and renews it.
type Keeper struct {
	Store    Store
	Name     string // of the Lease, for logs and messages
	Holder   string // the pod's UID
	Duration time.Duration
	Log      *slog.Logger // must not block
	// Deadline is called with the time that is left until everything must be stopped by force, whenever that may have changed. It must not
	// block. May be nil.
	Deadline func(remaining time.Duration)
	// Expired signals that everything was stopped by force, because that time was over. May be nil.
	Expired <-chan struct{}

	lastRecord     Record            // as last read or written
	unchangedSince time.Time         // since when it has not changed
	renewedAt      hostclock.Reading // when the last renewal that succeeded was sent
	held           bool
	problem        string
}

func (k *Keeper) renewDeadline() time.Duration { return k.Duration * 2 / 3 }
func (k *Keeper) forceDelay() time.Duration    { return k.Duration - ForceTime(k.Duration) }
func (k *Keeper) retryPeriod() time.Duration {
	return min(max(k.Duration/15, minRetryPeriod), maxRetryPeriod)
}
func (k *Keeper) requestTimeout() time.Duration { return min(k.Duration/5, maxRequestTimeout) }

// Run acquires the Lease, renews it three times per duration until the context ends, and reports every change. It neither waits for jobs
// nor releases the Lease: call Release when nothing runs any more.
func (k *Keeper) Run(ctx context.Context, onChange func(State)) {
	retryTimer, deadlineTimer := time.NewTimer(0), time.NewTimer(k.Duration)
	defer retryTimer.Stop()
	defer deadlineTimer.Stop()
	results, inFlight := make(chan renewalResult, 1), false
	defer func() {
		if inFlight {
			k.recordResult(<-results) // its context has ended
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-retryTimer.C:
			inFlight = true
			go func(r renewal) { results <- r.run(ctx) }(k.newRenewal())
		case <-k.Expired:
			k.reportExpired(onChange)
		case result := <-results:
			inFlight = false
			if k.held {
				k.reportChange(onChange) // a renewal does not undo a loss of the Lease, for example during a suspension
			}
			if k.recordResult(result); !errors.Is(result.err, errPodGone) {
				retryTimer.Reset(k.nextDelay())
			}
		case <-deadlineTimer.C:
		}
		k.updateDeadline() // first: the receiver begins at once when the Lease is held
		k.reportChange(onChange)
		if remaining := k.renewDeadline() - elapsedSince(k.renewedAt); remaining > 0 {
			deadlineTimer.Reset(remaining)
		}
	}
}

// updateDeadline sets the deadline for stopping everything by force.
func (k *Keeper) updateDeadline() {
	if k.Deadline != nil && !k.renewedAt.IsZero() {
		k.Deadline(k.forceDelay() - elapsedSince(k.renewedAt))
	}
}

// reportExpired reports the Lease as lost even if it was renewed at the last moment, because all jobs were stopped and must be started
// again.
func (k *Keeper) reportExpired(onChange func(State)) {
	if k.held {
		k.held = false
		onChange(k.lostState())
	}
}

// nextDelay returns how long to wait before the next attempt.
func (k *Keeper) nextDelay() time.Duration {
	if k.problem != "" {
		return k.retryPeriod()
	}
	return max(k.Duration/3-elapsedSince(k.renewedAt), 0)
}

// recordResult records the result of an attempt.
func (k *Keeper) recordResult(result renewalResult) {
	if result.record != k.lastRecord {
		k.lastRecord, k.unchangedSince = result.record, result.readAt
	}
	if takenByOther := result.record.Version != "" && result.record.Holder != k.Holder; takenByOther && !k.renewedAt.IsZero() &&
		elapsedSince(k.renewedAt) < k.renewDeadline() {
		k.renewedAt = now().Add(-k.renewDeadline()) // it was taken away or deleted: retry at once
	}
	k.problem = ""
	if result.err != nil {
		k.problem = fmt.Sprintf("Lease %q: %v", k.Name, result.err)
		return
	}
	k.renewedAt = result.sentAt
}

// reportChange reports when the Lease is acquired or lost.
func (k *Keeper) reportChange(onChange func(State)) {
	held, wasHeld := !k.renewedAt.IsZero() && elapsedSince(k.renewedAt) < k.renewDeadline(), k.held
	k.held = held
	switch {
	case held && wasHeld:
	case held:
		onChange(State{Held: true})
		k.Log.Info("acquired the Lease", "lease", k.Name, "duration", k.Duration.String())
	default:
		state := k.lostState()
		onChange(state) // first: a log may take its time
		if wasHeld {
			k.Log.Error("lost the Lease: stopping all jobs before another worker can acquire it", "lease", k.Name, "problem", state.Problem, "over",
				state.ExpiresAt)
		}
	}
}

// lostState returns why the Lease is not held, and how much time that leaves.
func (k *Keeper) lostState() State {
	state := State{Problem: k.problem}
	if state.Problem == "" {
		state.Problem = fmt.Sprintf("Lease %q: not renewed for %s", k.Name, k.renewDeadline())
	}
	state.Problem += ": nothing runs without it"
	if !k.renewedAt.IsZero() {
		state.ForceAt, state.ExpiresAt = k.renewedAt.Add(k.forceDelay()), k.renewedAt.Add(k.Duration)
	}
	return state
}

// Release releases the Lease, if it is ours. Nothing that it protects may run any more.
func (k *Keeper) Release(ctx context.Context) error {
	const tries = 3 // a renewal that was abandoned may still arrive
	err := error(nil)
	for range tries {
		var record Record
		record, err = k.Store.Read(ctx)
		if errors.Is(err, ErrNotFound) || err == nil && record.Holder != k.Holder {
			return nil
		}
		if err == nil {
			record.Holder = ""
			_, err = k.Store.Write(ctx, record)
		}
		if !errors.Is(err, ErrConflict) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("release Lease %q: %w", k.Name, err)
	}
	return nil
}

// A renewal is the input of one attempt to acquire or renew the Lease. It runs apart from the goroutine that watches the clock, because a
// request may hang for longer than the time that is left.
type renewal struct {
	store          Store
	desired        Record // the record to write
	lastRecord     Record
	unchangedSince time.Time
	held           bool
	timeout        time.Duration
}

// A renewalResult is the result of one attempt.
type renewalResult struct {
	record Record
	readAt time.Time         // when the record was read
	sentAt hostclock.Reading // when the write that succeeded was sent
	err    error
}

func (k *Keeper) newRenewal() renewal {
	return renewal{
		store: k.Store, desired: Record{Holder: k.Holder, Duration: k.Duration}, lastRecord: k.lastRecord, unchangedSince: k.unchangedSince,
		held: !k.renewedAt.IsZero() && elapsedSince(k.renewedAt) < k.renewDeadline(), timeout: k.requestTimeout(),
	}
}

// run renews the Lease, or acquires it when it is free. Without a current one, it also checks that the pod exists.
func (r renewal) run(ctx context.Context) renewalResult {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	result := r.acquireOrRenew(ctx)
	if result.err != nil || r.held {
		return result
	}
	present, err := r.store.PodExists(ctx)
	switch {
	case err != nil:
		result.err = fmt.Errorf("look for the pod: %w", err)
	case !present:
		result.err = errPodGone // it is not released, since jobs may still be stopping
	}
	return result
}

func (r renewal) acquireOrRenew(ctx context.Context) renewalResult {
	if r.lastRecord.Version != "" && r.lastRecord.Holder == r.desired.Holder {
		if result := r.write(ctx, r.lastRecord); result.err == nil || !errors.Is(result.err, ErrConflict) {
			return result
		}
	}
	requestedAt := time.Now()
	current, err := r.store.Read(ctx)
	switch {
	case errors.Is(err, ErrNotFound):
		return r.write(ctx, Record{})
	case err != nil:
		return renewalResult{record: r.lastRecord, readAt: r.unchangedSince, err: err}
	case current.Holder == "" || current.Holder == r.desired.Holder:
		return r.write(ctx, current)
	case current == r.lastRecord && requestedAt.Sub(r.unchangedSince) >= TakeoverDelay(current.Duration):
		return r.write(ctx, current)
	}
	return renewalResult{record: current, readAt: time.Now(), err: fmt.Errorf("pod %s holds it: others can take it after %s without a renewal",
		current.Holder, TakeoverDelay(current.Duration))}
}

// write makes this worker the holder in place of the record that was read.
func (r renewal) write(ctx context.Context, current Record) renewalResult {
	record := r.desired
	record.Version, record.UID = current.Version, current.UID
	sentAt := now()
	written, err := r.store.Write(ctx, record)
	if err != nil {
		return renewalResult{record: r.lastRecord, readAt: r.unchangedSince, err: err}
	}
	return renewalResult{record: written, readAt: sentAt.Monotonic, sentAt: sentAt}
}
