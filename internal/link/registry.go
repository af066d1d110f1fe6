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
	// forgetAfter is how long the last heartbeat of an agent that has joined is remembered: longer than any lease.
	forgetAfter = 2 * time.Hour
	// sweepEvery is how often old entries are looked for.
	sweepEvery = time.Minute
)

// A registry holds the one session of each agent and when each agent was last heard. It remembers nothing about an agent that
// was never welcomed once its streams have ended: any pod with a token can say Hello, whether it is authorized to join or
// not.
type registry struct {
	perAgent int

	mu       sync.Mutex
	sessions map[Agent]*session
	streams  map[Agent]int // proven, including waiting ones
	heard    map[Agent]time.Time
	latest   map[Agent]connections
	arrived  map[Agent]time.Time     // when the newest of latest arrived
	keep     map[Agent]time.Duration // how long welcomed agents are remembered after that
	swept    time.Time
	hellos   *limit.Buckets // by agent
}

func newRegistry(limits Limits) *registry {
	return &registry{
		perAgent: limits.PerAgent,
		hellos:   limit.NewBuckets(1/limits.HelloEvery.Seconds(), limits.HelloBurst, limits.Connections),
		sessions: map[Agent]*session{}, streams: map[Agent]int{}, heard: map[Agent]time.Time{}, latest: map[Agent]connections{},
		arrived: map[Agent]time.Time{}, keep: map[Agent]time.Duration{},
	}
}

// enter counts a proven stream, unless its agent has too many of them or opens them too often.
func (r *registry) enter(agent Agent, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.streams[agent] >= r.perAgent:
		return &ending{refusedPerAgent, status.Error(codes.ResourceExhausted, "this agent has too many streams")}
	case !r.hellos.Allow(agent.String(), now):
		return &ending{refusedHellos, status.Error(codes.ResourceExhausted, "this agent connects too often: wait before the next attempt")}
	}
	r.streams[agent]++
	return nil
}

func (r *registry) exit(agent Agent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams[agent]--; r.streams[agent] > 0 {
		return
	}
	delete(r.streams, agent)
	if r.keep[agent] == 0 {
		r.forget(agent)
	}
}

// welcomed keeps an agent for at least this long after it was last heard.
func (r *registry) welcomed(agent Agent, atLeast time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep[agent] = max(r.keep[agent], atLeast)
}

// refused forgets when an agent was heard, unless it was welcomed on any stream: none of its leases counts from that time.
func (r *registry) refused(agent Agent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keep[agent] == 0 {
		delete(r.heard, agent)
	}
}

func (r *registry) forget(agent Agent) {
	delete(r.heard, agent)
	delete(r.latest, agent)
	delete(r.arrived, agent)
	delete(r.keep, agent)
}

// admit makes the session its agent's only one. It ends the previous session and waits until that has left, so that the
// consumer never sees two of them at once.
func (r *registry) admit(ctx context.Context, admitted *session) error {
	if !r.arrive(admitted) {
		return errOutdated
	}
	for {
		before, err := r.replace(ctx, admitted)
		if before == nil {
			return err
		}
		before.end(cutOff(refusedReplaced, "a newer stream of this agent replaces it"))
		select {
		case <-before.left:
		case <-ctx.Done():
		}
	}
}

// errOutdated is for a connection that its process has abandoned: it arrived after its successor.
var errOutdated = cutOff(refusedOutdated, "a newer connection of this process has arrived before")

// arrive records a connection, and returns false if it is not later than all others of its process.
func (r *registry) arrive(arrived *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if arrived.connection.process == "" {
		return true
	}
	known := r.latest[arrived.agent]
	if arrived.connection.number <= known.latest(arrived.connection.process) {
		return false
	}
	r.latest[arrived.agent], r.arrived[arrived.agent] = known.note(arrived.connection), time.Now()
	return true
}

// replace takes the agent's place if it is free, or returns the session that holds it. A stream that is over, or was
// overtaken while it waited, gets no place: its Hello is outdated.
func (r *registry) replace(ctx context.Context, admitted *session) (*session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	latest := r.latest[admitted.agent].latest(admitted.connection.process)
	switch before := r.sessions[admitted.agent]; {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case admitted.connection.number < latest:
		return nil, errOutdated
	case before != nil:
		return before, nil
	}
	r.sweep(time.Now())
	r.sessions[admitted.agent] = admitted
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
	if now.Sub(r.swept) >= sweepEvery {
		r.swept = now
		r.forgetOld(now)
	}
}

func (r *registry) forgetOld(now time.Time) {
	for agent, keep := range r.keep {
		last := r.heard[agent]
		if arrived := r.arrived[agent]; arrived.After(last) {
			last = arrived
		}
		if r.streams[agent] == 0 && r.sessions[agent] == nil && now.Sub(last) > keep {
			r.forget(agent)
		}
	}
}

func (r *registry) hear(agent Agent, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard[agent] = now
}

func (r *registry) lastHeard(agent Agent) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.heard[agent]
	return last, known
}

func (r *registry) session(agent Agent) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sessions[agent]
}

func (r *registry) all() []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*session, 0, len(r.sessions))
	for _, s := range r.sessions {
		list = append(list, s)
	}
	return list
}
