package link_test

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

// startClosed runs an operator whose consumer is not ready until it is opened.
func startClosed(t *testing.T) (operator *linktest.Operator, open func()) {
	t.Helper()
	opened := make(chan struct{})
	operator = linktest.Start(t, linktest.NewCA(t), func(c *link.Config) { c.Ready = opened })
	return operator, func() { close(opened) }
}

// A new leader needs time to read what its predecessor has written. Agents must not stop their work for that.
func TestHeartbeatsAreAnsweredBeforeTheConsumerIsReady(t *testing.T) {
	operator, open := startClosed(t)
	c, _ := join(t, operator, coder)
	for sequence := range int64(3) {
		c.say(t, heartbeat(sequence))
		if echo := c.hear(t).GetEcho(); echo.GetSequence() != sequence {
			t.Errorf("got %v, want an echo of %d", echo, sequence)
		}
	}
	if _, known := operator.LastHeard(coder); !known {
		t.Error("what was echoed is not remembered")
	}
	if events := operator.Events(); len(events) != 0 {
		t.Fatalf("the consumer was told before it was ready: %v", events)
	}
	c.say(t, credit(5))
	open()
	operator.Await(t, 1, "the Hello", func(e linktest.Event) bool { return e.Hello != nil })
	operator.Await(t, 1, "the first heartbeat", func(e linktest.Event) bool { return e.Message.GetHeartbeat() != nil })
	operator.Await(t, 1, "the credit", func(e linktest.Event) bool { return e.Message.GetCredit().GetGranted() == 5 })
	_ = c.connection.Close()
	operator.AwaitLeft(t, 1)
}

func TestAgentThatWasWelcomedEarlyCanBeRefused(t *testing.T) {
	operator, open := startClosed(t)
	operator.Refusal = func(*linkv1.Hello) error { return errors.New("connect again") }
	c, _ := join(t, operator, coder)
	open()
	if code := c.ending(); code != codes.Unavailable {
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
	operator, open := startClosed(t)
	c, _ := join(t, operator, coder)
	_ = c.connection.Close()
	linktest.Eventually(t, "the end of the stream", func() bool { return !operator.Linked(coder) })
	open()
	operator.AwaitLeft(t, 1) // it was asked for a lease
	if events := operator.Events(); len(events) != 1 {
		t.Errorf("the consumer was told: %v", events)
	}
}

func TestEarlyAgentIsCutOffWhenTheLeaderLeadsNoMore(t *testing.T) {
	operator, _ := startClosed(t)
	c, _ := join(t, operator, coder)
	operator.Leader.Follow("")
	c.say(t, heartbeat(1))
	if code := c.ending(); code != codes.Unavailable {
		t.Errorf("the stream ended with %s", code)
	}
}
