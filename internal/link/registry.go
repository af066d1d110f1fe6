package link

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/swarm-io/swarm-operator/internal/limit"
)

const (
	// lastHeardTTL is how long the last heartbeat of an agent that has joined is remembered: longer than any lease.
	lastHeardTTL = 2 * time.Hour
	// sweepInterval is how often old entries are looked for.
	sweepInterval = time.Minute
)

// A registry holds the one session of each agent and when each agent was last heard. It remembers nothing about an agent that
// was never welcomed once its streams have ended: any pod with a token can say Hello, whether it is authorized to join or
// not.
type registry struct {
	maxStreams int

	mu           sync.Mutex
	sessions     map[Agent]*session
	streams      map[Agent]int // proven, including waiting ones
	heardAt      map[Agent]time.Time
	connections  map[Agent]connectionHistory
	connectedAt  map[Agent]time.Time     // when the newest of latest arrived
	retention    map[Agent]time.Duration // how long welcomed agents are remembered after that
	lastSweep    time.Time
	helloLimiter *limit.Buckets // by agent
}

func newRegistry(limits Limits) *registry {
	return &registry{
		maxStreams:   limits.StreamsPerAgent,
		helloLimiter: limit.NewBuckets(1/limits.HelloInterval.Seconds(), limits.HelloBurst, limits.Connections),
		sessions:     map[Agent]*session{}, streams: map[Agent]int{}, heardAt: map[Agent]time.Time{}, connections: map[Agent]connectionHistory{},
		connectedAt: map[Agent]time.Time{}, retention: map[Agent]time.Duration{},
	}
}

// addStream counts a proven stream, unless its agent has too many of them or opens them too often.
func (r *registry) addStream(agent Agent, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.streams[agent] >= r.maxStreams:
		return &streamError{refusedPerAgent, status.Error(codes.ResourceExhausted, "this agent has too many streams")}
	case !r.helloLimiter.Allow(agent.String(), now):
		return &streamError{refusedHellos, status.Error(codes.ResourceExhausted, "this agent connects too often: wait before the next attempt")}
	}
	r.streams[agent]++
	return nil
}

func (r *registry) removeStream(agent Agent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams[agent]--; r.streams[agent] > 0 {
		return
	}
	delete(r.streams, agent)
	if r.retention[agent] == 0 {
		r.forget(agent)
	}
}

// markWelcomed keeps an agent for at least this long after it was last heard.
func (r *registry) markWelcomed(agent Agent, atLeast time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retention[agent] = max(r.retention[agent], atLeast)
}

// markRefused forgets when an agent was heard, unless it was welcomed on any stream: none of its leases counts from that time.
func (r *registry) markRefused(agent Agent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.retention[agent] == 0 {
		delete(r.heardAt, agent)
	}
}

func (r *registry) forget(agent Agent) {
	delete(r.heardAt, agent)
	delete(r.connections, agent)
	delete(r.connectedAt, agent)
	delete(r.retention, agent)
}

// admit makes the session its agent's only one. It ends the previous session and waits until that has left, so that the
// consumer never sees two of them at once.
func (r *registry) admit(ctx context.Context, sess *session) error {
	if !r.recordConnection(sess) {
		return errOutdatedConnection
	}
	for {
		previous, err := r.addIfFree(ctx, sess)
		if previous == nil {
			return err
		}
		previous.end(newAbortedError(refusedReplaced, "a newer stream of this agent replaces it"))
		select {
		case <-previous.left:
		case <-ctx.Done():
		}
	}
}

// errOutdatedConnection is for a connection that its process has abandoned: it arrived after its successor.
var errOutdatedConnection = newAbortedError(refusedOutdated, "a newer connection of this process has arrived before")

// recordConnection records a connection, and returns false if it is not later than all others of its process.
func (r *registry) recordConnection(sess *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sess.connectionID.process == "" {
		return true
	}
	connections := r.connections[sess.agent]
	if sess.connectionID.number <= connections.latestNumber(sess.connectionID.process) {
		return false
	}
	r.connections[sess.agent], r.connectedAt[sess.agent] = connections.record(sess.connectionID), time.Now()
	return true
}

// addIfFree takes the agent's place if it is free, or returns the session that holds it. A stream that is over, or was
// overtaken while it waited, gets no place: its Hello is outdated.
func (r *registry) addIfFree(ctx context.Context, sess *session) (*session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	latest := r.connections[sess.agent].latestNumber(sess.connectionID.process)
	switch previous := r.sessions[sess.agent]; {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case sess.connectionID.number < latest:
		return nil, errOutdatedConnection
	case previous != nil:
		return previous, nil
	}
	r.sweep(time.Now())
	r.sessions[sess.agent] = sess
	return nil, nil
}

func (r *registry) remove(s *session) {
	r.mu.Lock()
	delete(r.sessions, s.agent)
	r.mu.Unlock()
	close(s.left)
}

// sweep is called often, and looks at all agents once a minute.
func (r *registry) sweep(now time.Time) {
	if now.Sub(r.lastSweep) >= sweepInterval {
		r.lastSweep = now
		r.removeExpired(now)
	}
}

func (r *registry) removeExpired(now time.Time) {
	for agent, retention := range r.retention {
		lastSeen := r.heardAt[agent]
		if connectedAt := r.connectedAt[agent]; connectedAt.After(lastSeen) {
			lastSeen = connectedAt
		}
		if r.streams[agent] == 0 && r.sessions[agent] == nil && now.Sub(lastSeen) > retention {
			r.forget(agent)
		}
	}
}

func (r *registry) markHeard(agent Agent, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heardAt[agent] = now
}

func (r *registry) lastHeard(agent Agent) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.heardAt[agent]
	return last, ok
}

func (r *registry) session(agent Agent) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sessions[agent]
}

func (r *registry) all() []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	sessions := make([]*session, 0, len(r.sessions))
	for _, s := range r.sessions {
		sessions = append(sessions, s)
	}
	return sessions
}
