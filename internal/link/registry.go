package link

import (
	"context"
	"sync"
	"time"
)

// forgetAfter is how many leases a lost agent's last heartbeat is remembered: long after anybody could still ask.
const forgetAfter = 20

// A registry knows the one session of each agent and when each agent was heard last.
type registry struct {
	lease    time.Duration
	perAgent int

	mu       sync.Mutex
	sessions map[Agent]*session
	streams  map[Agent]int // proven, waiting ones included
	heard    map[Agent]time.Time
}

func newRegistry(lease time.Duration, perAgent int) *registry {
	return &registry{
		lease: lease, perAgent: perAgent,
		sessions: map[Agent]*session{}, streams: map[Agent]int{}, heard: map[Agent]time.Time{},
	}
}

// enter counts a proven stream; false when its agent has too many.
func (r *registry) enter(agent Agent) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams[agent] >= r.perAgent {
		return false
	}
	r.streams[agent]++
	return true
}

func (r *registry) exit(agent Agent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams[agent]--; r.streams[agent] == 0 {
		delete(r.streams, agent)
	}
}

// admit makes the session its agent's only one. It ends the one before and waits until that has left, so that the
// consumer never sees two of them at once.
func (r *registry) admit(ctx context.Context, admitted *session) error {
	for {
		before := r.replace(admitted)
		if before == nil {
			return nil
		}
		before.end(cutOff(refusedReplaced, "a newer stream of this agent replaces it"))
		select {
		case <-before.left:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// replace takes the agent's place if it is free, or returns who holds it.
func (r *registry) replace(admitted *session) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before := r.sessions[admitted.agent]; before != nil {
		return before
	}
	r.forgetOld(time.Now())
	r.sessions[admitted.agent] = admitted
	return nil
}

func (r *registry) remove(s *session) {
	r.mu.Lock()
	delete(r.sessions, s.agent)
	r.mu.Unlock()
	close(s.left)
}

func (r *registry) forgetOld(now time.Time) {
	for agent, last := range r.heard {
		if r.sessions[agent] == nil && now.Sub(last) > forgetAfter*r.lease {
			delete(r.heard, agent)
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
