package link_test

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

// startNotReady runs an operator whose consumer is not ready until it is opened.
func startNotReady(t *testing.T) (operator *linktest.Operator, setReady func()) {
	t.Helper()
	ready := make(chan struct{})
	operator = linktest.Start(t, linktest.NewCA(t), func(c *link.Config) { c.Ready = ready })
	return operator, func() { close(ready) }
}

// A new leader needs time to read what its predecessor has written. Agents must not stop their work for that.
func TestHeartbeatsAreAnsweredBeforeTheConsumerIsReady(t *testing.T) {
	operator, open := startNotReady(t)
	c, _ := join(t, operator, coder)
	for sequence := range int64(3) {
		c.send(t, heartbeat(sequence))
		if echo := c.receive(t).GetEcho(); echo.GetSequence() != sequence {
			t.Errorf("got %v, want an echo of %d", echo, sequence)
		}
	}
	if _, known := operator.LastHeard(coder); !known {
		t.Error("what was echoed is not remembered")
	}
	if events := operator.Events(); len(events) != 0 {
		t.Fatalf("the consumer was told before it was ready: %v", events)
	}
	c.send(t, credit(5))
	open()
	operator.Await(t, 1, "the Hello", func(e linktest.Event) bool { return e.Hello != nil })
	operator.Await(t, 1, "the first heartbeat", func(e linktest.Event) bool { return e.Message.GetHeartbeat() != nil })
	operator.Await(t, 1, "the credit", func(e linktest.Event) bool { return e.Message.GetCredit().GetGranted() == 5 })
	_ = c.conn.Close()
	operator.AwaitLeft(t, 1)
}

func TestAgentThatWasWelcomedEarlyCanBeRefused(t *testing.T) {
	operator, open := startNotReady(t)
	operator.JoinError = func(*linkv1.Hello) error { return errors.New("connect again") }
	c, _ := join(t, operator, coder)
	open()
	if code := c.awaitEnd(); code != codes.Unavailable {
		t.Errorf("the stream ended with %s", code)
	}
	assertRefused(t, operator, "not_wanted", 1)
	operator.AwaitLeft(t, 1) // it was asked for a lease
	if events := operator.Events(); len(events) != 1 {
		t.Errorf("the consumer was told of an agent that it refused: %v", events)
	}
}

// Nothing about an agent that is gone reaches the consumer: its Hello is outdated.
func TestAgentThatLeavesEarlyNeverJoins(t *testing.T) {
	operator, open := startNotReady(t)
	c, _ := join(t, operator, coder)
	_ = c.conn.Close()
	linktest.Eventually(t, "the end of the stream", func() bool { return !operator.Linked(coder) })
	open()
	operator.AwaitLeft(t, 1) // it was asked for a lease
	if events := operator.Events(); len(events) != 1 {
		t.Errorf("the consumer was told: %v", events)
	}
}

func TestEarlyAgentIsCutOffWhenTheLeaderLeadsNoMore(t *testing.T) {
	operator, _ := startNotReady(t)
	c, _ := join(t, operator, coder)
	operator.Leader.Follow("")
	c.send(t, heartbeat(1))
	if code := c.awaitEnd(); code != codes.Unavailable {
		t.Errorf("the stream ended with %s", code)
	}
}
