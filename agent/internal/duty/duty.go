// Package duty keeps an agent's promises to the operator. One goroutine owns all of its state and takes events one by one:
// messages of the operator, news of attempts, and the passing of time.
//
// The promises:
//   - Every Hello reports what runs; what has ended is sent again until it is acknowledged. A Hello that has no room for
//     all of it says so, and is completed right after the Welcome.
//   - Goodbye is sent when nothing runs any more and nothing will: it is the last message.
//   - Never more attempts than slots, never a stale epoch (package ledger).
//   - Self-fencing (package lease): towards the end of the lease everything that runs is asked to stop, with a part of its
//     grace; at the end it is killed and the stream is thrown away, whether or not the connection looks alive.
//   - The killing does not depend on this goroutine: a watchdog of its own does it, too. Code that survives it ends the whole
//     process, because nothing else is left that would stop it.
//   - Nothing here waits for a log or a journal: both must not block.
package duty

import (
	"context"
	"log/slog"
	"time"

	"github.com/swarm-io/swarm-operator/agent/internal/attempt"
	"github.com/swarm-io/swarm-operator/agent/internal/lease"
	"github.com/swarm-io/swarm-operator/agent/internal/ledger"
	"github.com/swarm-io/swarm-operator/agent/internal/uplink"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/watchdog"
)

const (
	// An operator that does not welcome an agent in this time is frozen.
	welcomeTimeout = 10 * time.Second
	// A result that is not acknowledged is sent again this often on a stream that lives.
	resendEvery = 5 * time.Second
	// How long an agent that stops waits for the acknowledgement of its last results.
	farewell = 5 * time.Second
	// Progress is sent at most this often, and less often when many attempts report.
	progressEvery, progressEach = 250 * time.Millisecond, 50 * time.Millisecond
	// With many results that are not acknowledged each is sent again less often, so that the operator is not flooded.
	resendEach = 50 * time.Millisecond
	// Results in one Hello: fewer than fit into a frame of 1 MiB together with a thousand running attempts.
	resultsInHello, resultBytesInHello = 128, 512 << 10
	// How long an agent that stops waits until the operator has read its Goodbye.
	goodbyeTimeout = 2 * time.Second
)

// Config is the identity of the agent and how it runs code.
type Config struct {
	Namespace, Swarm, Agent, Version string

	Process string // names this run of the agent, and no other
	Slots   int
	Grace   time.Duration // for attempts that come without one
	Work    func(assign *linkv1.Assign, peers []string) attempt.Work
	Journal Journal
	Log     *slog.Logger
	Clock   func() time.Duration
	// StuckTimeout is for tests; 0 is the standard.
	StuckTimeout time.Duration
	// Abort is called when code survives its killing. It should not return, and must not wait for long.
	Abort func(reason string)
}

// A Journal notes when attempts start and finish, and when their results are acknowledged, as the agent sees it. It must not block.
type Journal interface {
	Started(attempt *linkv1.Attempt)
	// Finished also reports whether the attempt was ended by the lease.
	Finished(attempt *linkv1.Attempt, outcome linkv1.Outcome, fenced bool)
	Acknowledged(attempt *linkv1.Attempt)
}

// running is an attempt that has not ended.
type running struct {
	*attempt.Attempt
	grace  time.Duration
	warned bool // it was asked to stop because the lease is ending

	killedAt time.Duration // when it was seen to be killed
}

type finished struct {
	attempt *linkv1.Attempt
	end     attempt.End
}

// duty is the state. Only the goroutine in Run touches it.
type duty struct {
	Config
	ledger   *ledger.Ledger
	lease    lease.Lease
	watchdog *watchdog.Watchdog

	stream   *uplink.Stream // nil while there is none
	welcomed bool           // on this stream
	helloAt  time.Duration
	beatAt   time.Duration // of the last heartbeat on this stream
	partial  bool          // Hello had no room for all results, and the rest is not sent yet
	sequence int64
	taken    int64 // Assigns on this stream
	granted  int64 // sent on this stream
	leaving  bool  // sent on this stream that nothing new is taken
	sentAt   map[linkv1.AttemptKey]time.Duration

	term       int64
	termProof  []byte // of that term, for the next Hello
	connection int64  // the number of the stream
	peers      []string
	attempts   map[linkv1.AttemptKey]*running
	ended      chan finished
	news       chan struct{} // some attempt has progress to report, or the watchdog has acted
	flushAt    time.Duration // when progress may be sent again
	flushDue   bool
	drainAt    time.Duration // when what runs is handed back
	drainDue   bool
	stopping   bool
	gaveUp     bool
	stoppingAt time.Duration // when the last attempt had ended
}

// Run works until the context ends; then it hands back what runs, waits a little for acknowledgements, and returns.
func Run(ctx context.Context, config Config, streams <-chan *uplink.Stream) {
	d := &duty{
		Config: config, ledger: ledger.New(config.Slots),
		sentAt:   map[linkv1.AttemptKey]time.Duration{},
		attempts: map[linkv1.AttemptKey]*running{},
		ended:    make(chan finished), news: make(chan struct{}, 1),
	}
	if d.StuckTimeout == 0 {
		d.StuckTimeout = stuckTimeout
	}
	d.watchdog = watchdog.Start(watchdog.Config{
		Clock: config.Clock, Expired: d.hasNews,
		Exit: func() { config.Abort("an attempt could not be killed at the end of the lease") },
	})
	defer d.watchdog.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop := ctx.Done()
	for !d.over() {
		select {
		case <-stop:
			stop = nil
			d.leave()
		case stream := <-streams:
			d.greet(stream)
		case message := <-d.incoming():
			d.take(message)
		case <-d.lost():
			d.discard()
		case end := <-d.ended:
			d.finish(end)
		case <-d.news: // progress, the end of the lease, or something was killed
			d.flushDue = true
		case <-timer.C:
		}
		d.keepTime()
		timer.Reset(d.untilNext())
	}
	d.sayGoodbye()
}

// sayGoodbye proves to the operator that nothing runs here any more. No attempt is left, and each was finished by the end of its last process.
func (d *duty) sayGoodbye() {
	if d.welcomed {
		d.stream.Send(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Goodbye{Goodbye: &linkv1.Goodbye{}}})
		d.stream.Finish(goodbyeTimeout)
	}
	d.discard()
}

func (d *duty) incoming() <-chan *linkv1.OperatorMessage {
	if d.stream == nil {
		return nil
	}
	return d.stream.Incoming()
}

func (d *duty) lost() <-chan struct{} {
	if d.stream == nil {
		return nil
	}
	return d.stream.Done()
}

// leave begins the end of the agent: its pod is being stopped, or it gives itself up.
func (d *duty) leave() {
	d.Log.Info("stopping: what runs is handed back", "running", len(d.attempts))
	d.stopping = true
	d.ledger.Drain()
	d.stopAll(attempt.Stop{Outcome: linkv1.Outcome_OUTCOME_HANDED_BACK, Reason: "AgentStopping", Message: "the agent is being stopped", Grace: d.Grace})
	d.grant()
	d.stoppingAt = d.Clock()
}

// over reports whether nothing is left to do.
func (d *duty) over() bool {
	if !d.stopping || len(d.attempts) > 0 {
		return false
	}
	return len(d.ledger.Unacknowledged()) == 0 || d.Clock() >= d.stoppingAt+farewell
}

func (d *duty) stopAll(why attempt.Stop) {
	for _, running := range d.attempts {
		running.Stop(why)
	}
}

// discard throws the stream away.
func (d *duty) discard() {
	if d.stream != nil {
		d.stream.Close()
		d.stream, d.welcomed = nil, false
	}
}
