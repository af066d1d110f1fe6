package link

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// The end of a lease is counted from the last receipt. An echo that the agent gets after that would prolong its work.
func TestNothingIsEchoedOrHeardOnceASessionIsOver(t *testing.T) {
	s, _ := newSession(Limits{QueueMessages: 10, QueueBytes: 1 << 20})
	heard := 0
	if !s.echo(1, func() { heard++ }) {
		t.Fatal("not echoed")
	}
	s.end(nil)
	if s.echo(2, func() { heard++ }) || heard != 1 || len(s.queue.messages) != 1 {
		t.Errorf("heard %d times, queued %v", heard, s.queue.messages)
	}
	if err := s.send(newCancel("a")); !errors.Is(err, ErrNotLinked) {
		t.Errorf("got %v: what is sent on a session that is over is not delivered", err)
	}
}

func TestHeartbeatOfAFormerLeaderIsNotHeard(t *testing.T) {
	s, leads := newSession(Limits{QueueMessages: 10, QueueBytes: 1 << 20})
	leads.lost.Store(true)
	if s.echo(1, func() { t.Error("heard") }) || len(s.queue.messages) > 0 {
		t.Errorf("queued %v", s.queue.messages)
	}
	assertEnded(t, s, codes.Unavailable)
}

func TestSessionEndsUnlessItIsAlive(t *testing.T) {
	s, _ := newSession(Limits{QueueMessages: 10, QueueBytes: 1 << 20})
	if s.endUnless(func() bool { return true }, nil) || s.hasEnded() {
		t.Error("ended although it is alive")
	}
	if !s.endUnless(func() bool { return false }, nil) || !s.hasEnded() {
		t.Error("goes on")
	}
}

func TestDisconnectKeepsAnAgentThatWasHeardSince(t *testing.T) {
	s, _ := newSession(Limits{QueueMessages: 10, QueueBytes: 1 << 20})
	server, now := &Server{registry: newRegistry(Limits{StreamsPerAgent: 1}.withDefaults())}, time.Now()
	server.registry.sessions[s.agent] = s
	server.registry.markHeard(s.agent, now)
	if server.Disconnect(s.agent, now.Add(-time.Second)) || s.hasEnded() {
		t.Error("ended although the agent was heard since")
	}
	if !server.Disconnect(s.agent, now) || !s.hasEnded() {
		t.Error("goes on")
	}
	if !server.Disconnect(Agent{Name: "another"}, now) {
		t.Error("an agent without a stream cannot be heard")
	}
}

func newAssign(bytes int) *linkv1.OperatorMessage {
	assign := &linkv1.Assign{Attempt: &linkv1.Attempt{Task: "t"}, Payload: []byte(strings.Repeat("x", bytes))}
	return &linkv1.OperatorMessage{Kind: &linkv1.OperatorMessage_Assign{Assign: assign}}
}

// A burst of large payloads is not the agent's fault.
func TestAssignmentsWaitInsteadOfCuttingTheAgentOff(t *testing.T) {
	s, _ := newSession(Limits{QueueMessages: 100, QueueBytes: 4 << 20})
	s.grantCredit(&linkv1.Credit{Granted: 16})
	accepted := 0
	for range 16 {
		switch err := s.send(newAssign(500 << 10)); {
		case err == nil:
			accepted++
		case !errors.Is(err, ErrNoRoom):
			t.Fatal(err)
		}
	}
	if accepted != 6 || s.hasEnded() {
		t.Errorf("took %d of 16, over: %t", accepted, s.hasEnded())
	}
	if err := s.send(newCancel("a")); err != nil {
		t.Errorf("assignments have left no room for others: %v", err)
	}
	for range accepted + 1 {
		s.queue.tryPop()
	}
	if err := s.send(newAssign(500 << 10)); err != nil {
		t.Errorf("there is room again: %v", err)
	}
	if s.creditSpent != int64(accepted+1) {
		t.Errorf("%d assignments were counted: those that were refused cost no credit", s.creditSpent)
	}
}
