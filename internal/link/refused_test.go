package link

import (
	"errors"
	"fmt"
	"testing"
	"time"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// A strict consumer refuses agents, and records whether they were known to have been heard when they left.
type refusingConsumer struct {
	stubConsumer
	server       *Server
	refuses      bool
	heardAtLeave []bool
}

func (s *refusingConsumer) Joined(Agent, string, *linkv1.Hello) error {
	if s.refuses {
		return errors.New("not authorized")
	}
	return nil
}

func (s *refusingConsumer) Left(agent Agent) {
	_, known := s.server.LastHeard(agent)
	s.heardAtLeave = append(s.heardAtLeave, known)
}

func newRefusingServer(t *testing.T, ready bool) (*Server, *refusingConsumer) {
	t.Helper()
	config, events := validConfig(), &refusingConsumer{refuses: true}
	config.Authenticator, config.Events = onePodAuthenticator{}, events
	if ready {
		readyChan := make(chan struct{})
		close(readyChan)
		config.Ready = readyChan
	}
	server, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	events.server = server
	return server, events
}

func connectWithHello(server *Server, process string, number int64) error {
	return server.Connect(&helloStream{hello: &linkv1.Hello{
		Protocol: linkv1.Protocol, Namespace: "ns", Agent: "a", Swarm: "s", Process: process, Connection: number,
	}})
}

// A tenant can make any number of pods, and each of them can say Hello.
func TestRefusedAgentsLeaveNothing(t *testing.T) {
	server, events := newRefusingServer(t, true)
	for n := range 10 {
		if err := connectWithHello(server, fmt.Sprint(n), 1); err != nil {
			t.Fatal(err)
		}
	}
	if r := server.registry; r.remembers() {
		t.Errorf("left: %v, %v, %v, %v", r.connections, r.heardAt, r.connectedAt, r.retention)
	}
	if got := fmt.Sprint(events.heardAtLeave); got != fmt.Sprint(make([]bool, 10)) {
		t.Errorf("the consumer was told that a refused agent left while it counted as heard: %s", got)
	}
}

// An agent that has joined may run its assignments until its lease expires.
func TestAgentThatHasJoinedIsRememberedWhenItIsRefusedLater(t *testing.T) {
	server, events := newRefusingServer(t, true)
	events.refuses = false
	_ = connectWithHello(server, "p", 1)
	events.refuses = true
	_ = connectWithHello(server, "p", 2)
	_, heard := server.LastHeard(Agent{"ns", "a"})
	if latest := server.registry.connections[Agent{"ns", "a"}].latestNumber("uid/p"); !heard || latest != 2 {
		t.Errorf("heard %t, latest connection %d", heard, latest)
	}
}

// An agent that was welcomed before the consumer was ready keeps the lease that it received then.
func TestAgentThatWasWelcomedEarlyIsRememberedForItsLease(t *testing.T) {
	server, _ := newRefusingServer(t, false)
	_ = connectWithHello(server, "p", 1)
	r, lease := server.registry, stubConsumer{}.Lease(Agent{}, nil)
	r.removeExpired(time.Now().Add(lease + lease/2))
	if _, heard := server.LastHeard(Agent{"ns", "a"}); !heard {
		t.Error("forgotten before its lease was over")
	}
	r.removeExpired(time.Now().Add(2*lease + time.Second))
	if r.remembers() {
		t.Errorf("left: %v, %v, %v, %v", r.connections, r.heardAt, r.connectedAt, r.retention)
	}
}
