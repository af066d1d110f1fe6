package link_test

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

// joinsAndLeaves records the events of agents that joined or left.
func joinsAndLeaves(operator *linktest.Operator) []linktest.Event {
	return slices.DeleteFunc(operator.Events(), func(event linktest.Event) bool { return event.Message != nil })
}

// helloWithConnection returns the Hello of a process's connection.
func helloWithConnection(process string, number int64) *linkv1.AgentMessage {
	message := hello(coder)
	message.GetHello().Process, message.GetHello().Connection = process, number
	return message
}

// The agent has abandoned its first connection, whose Hello took longer to arrive than that of the second one.
func TestOlderConnectionDoesNotReplaceANewerOne(t *testing.T) {
	for _, number := range []int64{1, 2} {
		operator := linktest.Start(t, linktest.NewCA(t))
		older, newer := connect(t, operator, coder.String()), connect(t, operator, coder.String())
		newer.send(t, helloWithConnection("a", 2))
		newer.receive(t)
		older.send(t, helloWithConnection("a", number))
		if got := older.awaitEnd(); got != codes.Aborted {
			t.Errorf("connection %d after 2 ended with %v", number, got)
		}
		newer.send(t, heartbeat(1))
		if newer.receive(t).GetEcho() == nil {
			t.Errorf("connection %d has disturbed the newer one", number)
		}
		assertRefused(t, operator, "outdated", 1)
		if events := joinsAndLeaves(operator); len(events) != 1 {
			t.Errorf("the consumer saw %v: want one that joined", events)
		}
	}
}

func TestNewerConnectionAndOtherProcessesReplaceAStream(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t))
	for _, next := range []*linkv1.AgentMessage{helloWithConnection("a", 3), helloWithConnection("a", 4), helloWithConnection("b", 1),
		helloWithConnection("a", 5), hello(coder)} {
		c := connect(t, operator, coder.String())
		c.send(t, next)
		if c.receive(t).GetWelcome() == nil {
			t.Fatalf("process %q, connection %d was not welcomed", next.GetHello().GetProcess(), next.GetHello().GetConnection())
		}
	}
}
