// Package session keeps an agent's promises to the operator. One goroutine owns all of its state and handles events one by one: messages of
// the operator, changes of attempts, and timers.
//
// The promises:
//   - Every Hello reports the running attempts; results are sent again until they are acknowledged. A Hello that has no room for all of
//     them says so, and is completed right after the Welcome.
//   - Goodbye is the last message. It is sent when nothing runs any more and nothing will.
//   - Never more attempts than slots, never a stale epoch (package ledger).
//   - Self-fencing (package lease): towards the end of the lease all attempts are asked to stop, with a part of their grace period; at the
//     end they are killed and the stream is dropped, whether or not the connection looks alive.
//   - The killing does not depend on this goroutine: a separate watchdog does it as well. If code survives that, the whole process ends,
//     because nothing else can stop it.
//   - Nothing here waits for a log or a journal: neither may block.
package session

import (
	"context"
	"log/slog"
	"time"

	"github.com/swarm-io/swarm-operator/agent/internal/attempt"
	"github.com/swarm-io/swarm-operator/agent/internal/connection"
	"github.com/swarm-io/swarm-operator/agent/internal/lease"
	"github.com/swarm-io/swarm-operator/agent/internal/ledger"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/process/watchdog"
)

const (
	// An operator that sends no Welcome within this time is considered frozen.
	welcomeTimeout = 10 * time.Second
	// How often an unacknowledged result is sent again on a live stream.
	minResendInterval = 5 * time.Second
	// How long a stopping agent waits for the acknowledgement of its last results.
	acknowledgeTimeout = 5 * time.Second
	// Progress is sent at most this often, and less often when many attempts report.
	minProgressInterval, progressIntervalPerAttempt = 250 * time.Millisecond, 50 * time.Millisecond
	// The more results are not acknowledged, the less often each is sent again, so that the operator is not flooded.
	resendIntervalPerResult = 50 * time.Millisecond
	// Results in one Hello: fewer than fit into a frame of 1 MiB together with a thousand running attempts.
	maxResultsInHello, maxResultBytesInHello = 128, 512 << 10
	// How long a stopping agent waits until the operator has read its Goodbye.
	goodbyeTimeout = 2 * time.Second
)

// Config is the identity of the agent and how it runs code.
type Config struct {
	Namespace, Swarm, Agent, Version string

	Process string // names this run of the agent, and no other
	Slots   int
	Grace   time.Duration // for attempts without one
	NewWork func(assign *linkv1.Assign, peers []string) attempt.WorkFunc
	Journal Journal
	Log     *slog.Logger
	Clock   func() time.Duration
	// StuckTimeout is for tests; 0 means the default.
	StuckTimeout time.Duration
	// Abort is called when code survives being killed. It should not return, and must not block for long.
	Abort func(reason string)
}

// A Journal records when attempts start and finish, and when their results are acknowledged, as the agent sees it. It must not block.
type Journal interface {
	Started(attempt *linkv1.Attempt)
	// Finished also reports whether the attempt was ended by the lease.
	Finished(attempt *linkv1.Attempt, outcome linkv1.Outcome, fenced bool)
	Acknowledged(attempt *linkv1.Attempt)
}

// runningAttempt is an attempt that has not ended.
type runningAttempt struct {
	*attempt.Attempt
	grace         time.Duration
	stopRequested bool // it was asked to stop because the lease is ending

	killedAt time.Duration // when it was found killed
}

type attemptEnd struct {
	attempt *linkv1.Attempt
	result  attempt.Result
}

// session is the state. Only the goroutine in Run uses it.
type session struct {
	Config
	ledger   *ledger.Ledger
	lease    lease.Lease
	watchdog *watchdog.Watchdog

	stream          *connection.Stream // nil while there is none
	welcomed        bool               // on this stream
	helloSentAt     time.Duration
	heartbeatSentAt time.Duration // of the last heartbeat on this stream
	resultsMissing  bool          // Hello had no room for all results, and the rest is not sent yet
	sequence        int64
	assignsReceived int64 // Assigns on this stream
	granted         int64 // sent on this stream
	drainingSent    bool  // Draining was sent on this stream
	resultSentAt    map[linkv1.AttemptKey]time.Duration

	term        int64
	termProof   []byte // of that term, for the next Hello
	connection  int64  // the number of the stream
	peers       []string
	attempts    map[linkv1.AttemptKey]*runningAttempt
	attemptEnds chan attemptEnd
	wake        chan struct{} // some attempt has progress to report, or the watchdog has acted
	progressAt  time.Duration // when progress may be sent again
	progressDue bool
	drainAt     time.Duration // when running attempts are handed back
	drainDue    bool
	stopping    bool
	aborted     bool
	lastEndAt   time.Duration // when the last attempt had ended
}

// Run runs the session until the context ends. Then it hands back running attempts, waits briefly for acknowledgements, and returns.
func Run(ctx context.Context, config Config, streams <-chan *connection.Stream) {
	s := &session{
		Config: config, ledger: ledger.New(config.Slots),
		resultSentAt: map[linkv1.AttemptKey]time.Duration{},
		attempts:     map[linkv1.AttemptKey]*runningAttempt{},
		attemptEnds:  make(chan attemptEnd), wake: make(chan struct{}, 1),
	}
	if s.StuckTimeout == 0 {
		s.StuckTimeout = stuckTimeout
	}
	s.watchdog = watchdog.Start(watchdog.Config{
		Clock: config.Clock, Expired: s.notify,
		Exit: func() { config.Abort("an attempt could not be killed at the end of the lease") },
	})
	defer s.watchdog.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop := ctx.Done()
	for !s.isDone() {
		select {
		case <-stop:
			stop = nil
			s.beginShutdown()
		case stream := <-streams:
			s.sendHello(stream)
		case message := <-s.incomingMessages():
			s.handleMessage(message)
		case <-s.streamDone():
			s.closeStream()
		case end := <-s.attemptEnds:
			s.handleFinished(end)
		case <-s.wake: // progress, the end of the lease, or something was killed
			s.progressDue = true
		case <-timer.C:
		}
		s.runTimers()
		timer.Reset(s.untilNextTimer())
	}
	s.sendGoodbye()
}

// sendGoodbye proves to the operator that nothing runs here any more. No attempt is left, and each was finished by the end of its last
// process.
func (s *session) sendGoodbye() {
	if s.welcomed {
		s.stream.Send(&linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Goodbye{Goodbye: &linkv1.Goodbye{}}})
		s.stream.CloseSend(goodbyeTimeout)
	}
	s.closeStream()
}

func (s *session) incomingMessages() <-chan *linkv1.OperatorMessage {
	if s.stream == nil {
		return nil
	}
	return s.stream.Incoming()
}

func (s *session) streamDone() <-chan struct{} {
	if s.stream == nil {
		return nil
	}
	return s.stream.Done()
}

// beginShutdown begins to stop the agent: its pod is being stopped, or its process has a stuck attempt.
func (s *session) beginShutdown() {
	s.Log.Info("stopping: handing back running attempts", "running", len(s.attempts))
	s.stopping = true
	s.ledger.Drain()
	s.stopAttempts(attempt.StopRequest{Outcome: linkv1.Outcome_OUTCOME_HANDED_BACK, Reason: "AgentStopping",
		Message: "the agent is being stopped", Grace: s.Grace})
	s.sendCredit()
	s.lastEndAt = s.Clock()
}

// isDone reports whether nothing is left to do.
func (s *session) isDone() bool {
	if !s.stopping || len(s.attempts) > 0 {
		return false
	}
	return len(s.ledger.Unacknowledged()) == 0 || s.Clock() >= s.lastEndAt+acknowledgeTimeout
}

func (s *session) stopAttempts(request attempt.StopRequest) {
	for _, running := range s.attempts {
		running.Stop(request)
	}
}

// closeStream drops the stream.
func (s *session) closeStream() {
	if s.stream != nil {
		s.stream.Close()
		s.stream, s.welcomed = nil, false
	}
}
