package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/swarm-io/swarm-operator/internal/hostclock"
)

// Limits of what is a part of a Lease's duration.
const (
	leastRetry, mostRetry = 200 * time.Millisecond, 2 * time.Second
	mostPatience          = 10 * time.Second
)

// errGone ends all attempts.
var errGone = errors.New("the API server knows no such pod any more, and its jobs may be others' by now")

// A Keeper takes a Lease and keeps it.
type Keeper struct {
	Records  Records
	Name     string // of the Lease, for logs and messages
	Holder   string // the pod's UID
	Duration time.Duration
	Log      *slog.Logger // must not block
	// Deadline receives how much time is left until everything must be stopped by force, whenever that may have changed. It must not block.
	// May be nil.
	Deadline func(left time.Duration)
	// Expired signals that everything was stopped by force, because that time was over. May be nil.
	Expired <-chan struct{}

	known   Record            // as last read or written
	seen    time.Time         // since when it has not changed
	renewed hostclock.Reading // when the last renewal that succeeded was sent
	held    bool
	problem string
}

func (k *Keeper) fence() time.Duration    { return k.Duration * 2 / 3 }
func (k *Keeper) force() time.Duration    { return k.Duration - ForceTime(k.Duration) }
func (k *Keeper) retry() time.Duration    { return min(max(k.Duration/15, leastRetry), mostRetry) }
func (k *Keeper) patience() time.Duration { return min(k.Duration/5, mostPatience) }

// Keep takes the Lease and renews it at every third of its time until the context ends, and reports every change. It
// neither waits for jobs nor gives the Lease back: Release does, when nothing runs any more.
func (k *Keeper) Keep(ctx context.Context, tell func(Tenure)) {
	next, fence := time.NewTimer(0), time.NewTimer(k.Duration)
	defer next.Stop()
	defer fence.Stop()
	outcomes, under := make(chan outcome, 1), false
	defer func() {
		if under {
			k.digest(<-outcomes) // its context has ended
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			under = true
			go func(try attempt) { outcomes <- try.make(ctx) }(k.attempt())
		case <-k.Expired:
			k.lapse(tell)
		case got := <-outcomes:
			under = false
			if k.held {
				k.judge(tell) // a renewal does not undo that the Lease was lost, during a suspension for example
			}
			if k.digest(got); !errors.Is(got.err, errGone) {
				next.Reset(k.pause())
			}
		case <-fence.C:
		}
		k.extend() // first: the receiver begins at once when the Lease is held
		k.judge(tell)
		if left := k.fence() - age(k.renewed); left > 0 {
			fence.Reset(left)
		}
	}
}

// extend sets the deadline for stopping everything by force.
func (k *Keeper) extend() {
	if k.Deadline != nil && !k.renewed.IsZero() {
		k.Deadline(k.force() - age(k.renewed))
	}
}

// lapse reports that the Lease is lost even if it was renewed at the last moment, because nothing runs any more that must be started again.
func (k *Keeper) lapse(tell func(Tenure)) {
	if k.held {
		k.held = false
		tell(k.lost())
	}
}

// pause is how long to wait before the next attempt.
func (k *Keeper) pause() time.Duration {
	if k.problem != "" {
		return k.retry()
	}
	return max(k.Duration/3-age(k.renewed), 0)
}

// digest takes in what an attempt has brought.
func (k *Keeper) digest(got outcome) {
	if got.record != k.known {
		k.known, k.seen = got.record, got.read
	}
	if others := got.record.Version != "" && got.record.Holder != k.Holder; others && !k.renewed.IsZero() && age(k.renewed) < k.fence() {
		k.renewed = now().Add(-k.fence()) // it was taken away or deleted: there is no time to lose
	}
	k.problem = ""
	if got.err != nil {
		k.problem = fmt.Sprintf("Lease %q: %v", k.Name, got.err)
		return
	}
	k.renewed = got.sent
}

// judge reports whether the Lease is held, when that is news.
func (k *Keeper) judge(tell func(Tenure)) {
	held, before := !k.renewed.IsZero() && age(k.renewed) < k.fence(), k.held
	k.held = held
	switch {
	case held && before:
	case held:
		tell(Tenure{Held: true})
		k.Log.Info("Lease is held", "lease", k.Name, "duration", k.Duration.String())
	default:
		tenure := k.lost()
		tell(tenure) // first: a log may take its time
		if before {
			k.Log.Error("Lease is lost: every job is stopped before others can have it", "lease", k.Name, "problem", tenure.Problem, "over", tenure.Over)
		}
	}
}

// lost returns why the Lease is not held, and how much time that leaves.
func (k *Keeper) lost() Tenure {
	tenure := Tenure{Problem: k.problem}
	if tenure.Problem == "" {
		tenure.Problem = fmt.Sprintf("Lease %q: it was not renewed for %s", k.Name, k.fence())
	}
	tenure.Problem += ": nothing runs without it"
	if !k.renewed.IsZero() {
		tenure.Force, tenure.Over = k.renewed.Add(k.force()), k.renewed.Add(k.Duration)
	}
	return tenure
}

// Release gives the Lease back, if it is ours. Nothing that it protects may run any more.
func (k *Keeper) Release(ctx context.Context) error {
	const tries = 3 // a renewal that was given up may yet arrive
	err := error(nil)
	for range tries {
		var record Record
		record, err = k.Records.Read(ctx)
		if errors.Is(err, ErrNone) || err == nil && record.Holder != k.Holder {
			return nil
		}
		if err == nil {
			record.Holder = ""
			_, err = k.Records.Write(ctx, record)
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

// An attempt is what one try to take or renew the Lease has to know. It is made beside the goroutine that watches the
// clock, because a request may hang for longer than there is time.
type attempt struct {
	records  Records
	mine     Record // the record to be written
	known    Record
	seen     time.Time
	held     bool
	patience time.Duration
}

// An outcome is what an attempt has brought.
type outcome struct {
	record Record
	read   time.Time         // when the record was there
	sent   hostclock.Reading // when the write that succeeded was sent
	err    error
}

func (k *Keeper) attempt() attempt {
	return attempt{
		records: k.Records, mine: Record{Holder: k.Holder, Duration: k.Duration}, known: k.known, seen: k.seen,
		held: !k.renewed.IsZero() && age(k.renewed) < k.fence(), patience: k.patience(),
	}
}

// make renews the Lease, or takes it when it may be taken. Without a current one, it also checks that the pod exists.
func (a attempt) make(ctx context.Context) outcome {
	ctx, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	got := a.take(ctx)
	if got.err != nil || a.held {
		return got
	}
	present, err := a.records.Present(ctx)
	switch {
	case err != nil:
		got.err = fmt.Errorf("look for the pod: %w", err)
	case !present:
		got.err = errGone // it is not given back, since jobs may yet be stopping
	}
	return got
}

func (a attempt) take(ctx context.Context) outcome {
	if a.known.Version != "" && a.known.Holder == a.mine.Holder {
		if got := a.write(ctx, a.known); got.err == nil || !errors.Is(got.err, ErrConflict) {
			return got
		}
	}
	asked := time.Now()
	found, err := a.records.Read(ctx)
	switch {
	case errors.Is(err, ErrNone):
		return a.write(ctx, Record{})
	case err != nil:
		return outcome{record: a.known, read: a.seen, err: err}
	case found.Holder == "" || found.Holder == a.mine.Holder:
		return a.write(ctx, found)
	case found == a.known && asked.Sub(a.seen) >= Silence(found.Duration):
		return a.write(ctx, found)
	}
	return outcome{record: found, read: time.Now(), err: fmt.Errorf("pod %s has it, and others wait until it was not renewed for %s", found.Holder, Silence(found.Duration))}
}

// write makes the Lease ours in place of what was found.
func (a attempt) write(ctx context.Context, found Record) outcome {
	wanted := a.mine
	wanted.Version, wanted.UID = found.Version, found.UID
	sent := now()
	written, err := a.records.Write(ctx, wanted)
	if err != nil {
		return outcome{record: a.known, read: a.seen, err: err}
	}
	return outcome{record: written, read: sent.Monotonic, sent: sent}
}
