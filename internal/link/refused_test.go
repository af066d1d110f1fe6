package link

import (
	"errors"
	"fmt"
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// A strict consumer refuses agents, and records whether they were known to have been heard when they left.
type strict struct {
	consumer
	server *Server
	refuse bool
	heard  []bool
}

func (s *strict) Joined(Agent, string, *linkv1.Hello) error {
	if s.refuse {
		return errors.New("not authorized")
	}
	return nil
}

func (s *strict) Left(agent Agent) {
	_, known := s.server.LastHeard(agent)
	s.heard = append(s.heard, known)
}

func strictServer(t *testing.T, ready bool) (*Server, *strict) {
	t.Helper()
	config, events := wholeConfig(), &strict{refuse: true}
	config.Authenticator, config.Events = onePod{}, events
	if ready {
		opened := make(chan struct{})
		close(opened)
		config.Ready = opened
	}
	server, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	events.server = server
	return server, events
}

func greet(server *Server, process string, number int64) error {
	return server.Connect(&greeting{hello: &linkv1.Hello{
		Protocol: linkv1.Protocol, Namespace: "ns", Agent: "a", Swarm: "s", Process: process, Connection: number,
	}})
}

// A tenant can make any number of pods, and each of them can say Hello.
func TestRefusedAgentsLeaveNothing(t *testing.T) {
	server, events := strictServer(t, true)
	for n := range 10 {
		if err := greet(server, fmt.Sprint(n), 1); err != nil {
			t.Fatal(err)
		}
	}
	if r := server.registry; r.remembers() {
		t.Errorf("left: %v, %v, %v, %v", r.latest, r.heard, r.arrived, r.keep)
	}
	if got := fmt.Sprint(events.heard); got != fmt.Sprint(make([]bool, 10)) {
		t.Errorf("the consumer was told that a refused agent left while it counted as heard: %s", got)
	}
}

// An agent that has joined may run its assignments until its lease expires.
func TestAgentThatHasJoinedIsRememberedWhenItIsRefusedLater(t *testing.T) {
	server, events := strictServer(t, true)
	events.refuse = false
	_ = greet(server, "p", 1)
	events.refuse = true
	_ = greet(server, "p", 2)
	_, heard := server.LastHeard(Agent{"ns", "a"})
	if latest := server.registry.latest[Agent{"ns", "a"}].latest("uid/p"); !heard || latest != 2 {
		t.Errorf("heard %t, latest connection %d", heard, latest)
	}
}

// An agent that was welcomed before the consumer was ready keeps the lease that it received then.
func TestAgentThatWasWelcomedEarlyIsRememberedForItsLease(t *testing.T) {
	server, _ := strictServer(t, false)
	_ = greet(server, "p", 1)
	r, lease := server.registry, consumer{}.Lease(Agent{}, nil)
	r.forgetOld(time.Now().Add(lease + lease/2))
	if _, heard := server.LastHeard(Agent{"ns", "a"}); !heard {
		t.Error("forgotten before its lease was over")
	}
	r.forgetOld(time.Now().Add(2*lease + time.Second))
	if r.remembers() {
		t.Errorf("left: %v, %v, %v, %v", r.latest, r.heard, r.arrived, r.keep)
	}
}
