package link

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func newSessionWithConnection(process string, number int64) *session {
	return &session{
		agent: Agent{"ns", "a"}, connectionID: connectionID{process, number}, ended: make(chan struct{}), left: make(chan struct{}),
	}
}

// Two streams wait until the one before them has left. Whichever wakes first, the older one must not get the place.
func TestConnectionThatWasOvertakenWhileItWaitedIsRefused(t *testing.T) {
	r := newRegistry(Limits{StreamsPerAgent: 3}.withDefaults())
	first, second, third := newSessionWithConnection("p", 1), newSessionWithConnection("p", 2), newSessionWithConnection("p", 3)
	if err := r.admit(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error)
	go func() { waited <- r.admit(t.Context(), second) }()
	<-first.ended // the second waits for the first to leave
	if !r.recordConnection(third) {
		t.Fatal("the third connection is the latest")
	}
	r.remove(first)
	if err := <-waited; !errors.Is(err, errOutdatedConnection) {
		t.Errorf("got %v", err)
	}
}

func TestStreamThatIsOverGetsNoPlace(t *testing.T) {
	r := newRegistry(Limits{StreamsPerAgent: 3}.withDefaults())
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.admit(over, newSessionWithConnection("p", 1)); !errors.Is(err, context.Canceled) || r.session(Agent{"ns", "a"}) != nil {
		t.Errorf("got %v", err)
	}
}

func TestProcessesOfOneAgentAreBounded(t *testing.T) {
	r := newRegistry(Limits{StreamsPerAgent: 3}.withDefaults())
	for n := range 100 {
		r.recordConnection(newSessionWithConnection(strconv.Itoa(n), 1))
	}
	if known := r.connections[Agent{"ns", "a"}]; len(known) != maxProcesses || known.latestNumber("99") != 1 || known.latestNumber("0") != 0 {
		t.Errorf("remembered: %v", known)
	}
}

func TestConnectionsOfAnAgentThatIsGoneAreForgotten(t *testing.T) {
	r, agent := newRegistry(Limits{StreamsPerAgent: 3}.withDefaults()), Agent{"ns", "a"}
	r.recordConnection(newSessionWithConnection("p", 1))
	r.markHeard(agent, time.Now())
	r.markWelcomed(agent, lastHeardTTL)
	r.removeExpired(time.Now().Add(lastHeardTTL - time.Minute))
	if len(r.connections) != 1 || len(r.heardAt) != 1 {
		t.Errorf("too early: %v, %v", r.connections, r.heardAt)
	}
	r.removeExpired(time.Now().Add(lastHeardTTL + time.Minute))
	if r.remembers() {
		t.Errorf("left: %v, %v, %v, %v", r.connections, r.heardAt, r.connectedAt, r.retention)
	}
}

func (r *registry) remembers() bool {
	return len(r.connections)+len(r.heardAt)+len(r.connectedAt)+len(r.retention)+len(r.streams)+len(r.sessions) > 0
}

// A stream may be over before it is admitted. Its agent is never heard.
func TestConnectionsOfAnAgentThatWasNeverHeardAreForgotten(t *testing.T) {
	r, agent := newRegistry(Limits{StreamsPerAgent: 3}.withDefaults()), Agent{"ns", "a"}
	_ = r.addStream(agent, time.Now())
	_ = r.addStream(agent, time.Now())
	r.recordConnection(newSessionWithConnection("p", 1))
	r.removeStream(agent)
	if len(r.connections) != 1 {
		t.Error("forgotten while another stream of the agent is open")
	}
	r.removeStream(agent)
	if r.remembers() {
		t.Errorf("left: %v, %v", r.connections, r.connectedAt)
	}
}

// Looking at all agents takes long when there are many, and agents connect in crowds.
func TestExpiredAgentsAreSweptOnceAMinute(t *testing.T) {
	r, now, agent := newRegistry(Limits{StreamsPerAgent: 3}.withDefaults()), time.Now(), Agent{"ns", "a"}
	r.sweep(now)
	r.markHeard(agent, now.Add(-time.Hour))
	r.markWelcomed(agent, time.Minute)
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{sweepInterval - 1, true}, {sweepInterval, false}} {
		r.sweep(now.Add(c.after))
		if got := r.remembers(); got != c.want {
			t.Errorf("after %s: remembered %t", c.after, got)
		}
	}
}

// The consumer checks each Hello, so an agent that keeps reconnecting is refused before that.
func TestHellosOfOneAgentAreBounded(t *testing.T) {
	r, now, agent := newRegistry(Limits{}.withDefaults()), time.Now(), Agent{"ns", "a"}
	connect := func(agent Agent) error {
		err := r.addStream(agent, now)
		if err == nil {
			r.removeStream(agent)
		}
		return err
	}
	for n := range 10 {
		if err := connect(agent); err != nil {
			t.Fatalf("connection %d: %v", n, err)
		}
	}
	end, refused := errors.AsType[*streamError](connect(agent))
	if !refused || end.reason != refusedHellos || status.Code(end.grpcStatus) != codes.ResourceExhausted {
		t.Errorf("connection 11 at once: %v", end)
	}
	if err := connect(Agent{"ns", "b"}); err != nil {
		t.Errorf("another agent pays for it: %v", err)
	}
	now = now.Add(2 * time.Second)
	if err := connect(agent); err != nil {
		t.Errorf("after 2 s: %v", err)
	}
	if err := connect(agent); err == nil {
		t.Error("one in 2 s, but another was let in")
	}
}

// Pods come and go, each with its own name.
func TestAgentsWhoseHellosAreCountedAreBounded(t *testing.T) {
	limits := Limits{}.withDefaults()
	r, now := newRegistry(limits), time.Now()
	for n := range 5 * limits.Connections {
		agent := Agent{"ns", strconv.Itoa(n)}
		if r.addStream(agent, now) == nil {
			r.removeStream(agent)
		}
	}
	if got := r.helloLimiter.Len(); got > 2*limits.Connections {
		t.Errorf("%d agents are remembered", got)
	}
}
