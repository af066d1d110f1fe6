package main

import (
	"io"
	"net"
	"testing"
	"time"
)

// newLinkEnds connects an agent to an operator by a link, and returns both ends.
func newLinkEnds(t *testing.T) (link *Link, agent, operator net.Conn) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	if link, err = newLink(t.Context(), []string{listener.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	if agent, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", link.Addresses[0]); err != nil {
		t.Fatal(err)
	}
	if operator, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = agent.Close(), operator.Close() })
	return link, agent, operator
}

func send(t *testing.T, to net.Conn, text string) {
	t.Helper()
	if _, err := to.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, from net.Conn, want string) {
	t.Helper()
	_ = from.SetReadDeadline(time.Now().Add(time.Minute))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(from, got); err != nil || string(got) != want {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
}

// expectNothing waits a moment for what should not come.
func expectNothing(t *testing.T, from net.Conn) {
	t.Helper()
	_ = from.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if size, err := from.Read(make([]byte, 1)); size > 0 || err == nil {
		t.Fatalf("got %d bytes, %v", size, err)
	}
}

func TestALinkCarriesBothDirections(t *testing.T) {
	_, agent, operator := newLinkEnds(t)
	send(t, agent, "hello")
	receive(t, operator, "hello")
	send(t, operator, "welcome")
	receive(t, agent, "welcome")
}

func TestCutLinkDelaysData(t *testing.T) {
	link, agent, operator := newLinkEnds(t)
	if !link.Impair(linkCondition{cut: true}) || link.Impair(linkCondition{dropsFromOperator: true}) {
		t.Fatal("a link has one condition at a time")
	}
	send(t, agent, "hello")
	_ = agent.Close() // what it had sent is still under way
	expectNothing(t, operator)
	link.Restore()
	receive(t, operator, "hello")
}

func TestDeafLinkDropsOperatorData(t *testing.T) {
	link, agent, operator := newLinkEnds(t)
	link.Impair(linkCondition{dropsFromOperator: true})
	send(t, operator, "echo")
	send(t, agent, "heartbeat")
	receive(t, operator, "heartbeat")
	expectNothing(t, agent)
	link.Restore()
	_ = agent.SetReadDeadline(time.Now().Add(time.Minute))
	if got, err := io.ReadAll(agent); err != nil || len(got) > 0 {
		t.Errorf("got %q, %v, and not the end of the connection", got, err)
	}
}

func TestASlowLinkDelays(t *testing.T) {
	link, agent, operator := newLinkEnds(t)
	link.Impair(linkCondition{delay: 100 * time.Millisecond})
	began := time.Now()
	send(t, agent, "hello")
	receive(t, operator, "hello")
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("took %s", took)
	}
}

func TestSeverEndsConnections(t *testing.T) {
	link, agent, operator := newLinkEnds(t)
	send(t, agent, "hello")
	receive(t, operator, "hello")
	link.Sever()
	_ = agent.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := agent.Read(make([]byte, 1)); err == nil {
		t.Error("the connection goes on")
	}
}
