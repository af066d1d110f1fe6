package link_test

import (
	"bytes"
	"crypto/tls"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

func TestStrangersAreRefused(t *testing.T) {
	other := link.Agent{Namespace: "default", Name: "research-coder-1"}
	otherNamespace := link.Agent{Namespace: "kube-system", Name: coder.Name}
	for name, c := range map[string]struct {
		token  string
		first  *linkv1.AgentMessage
		code   codes.Code
		reason string
	}{
		"no token":                     {"", hello(coder), codes.Unauthenticated, "no_token"},
		"a stranger's token":           {"stranger", hello(coder), codes.Unauthenticated, "token_denied"},
		"another agent's token":        {other.String(), hello(coder), codes.PermissionDenied, "other_agent"},
		"another namespace's token":    {otherNamespace.String(), hello(coder), codes.PermissionDenied, "other_agent"},
		"a token without a pod":        {"default/", hello(link.Agent{Namespace: "default"}), codes.PermissionDenied, "other_agent"},
		"no Hello":                     {coder.String(), heartbeat(1), codes.InvalidArgument, "no_hello"},
		"a protocol from the past":     {coder.String(), oldHello(), codes.OK, "unsupported_protocol"},
		"a message that is no message": {coder.String(), nil, codes.Internal, "malformed_frame"},
		"a frame above the limit":      {coder.String(), oversizeHello(), codes.ResourceExhausted, "oversize_frame"},
	} {
		t.Run(name, func(t *testing.T) {
			operator := linktest.Start(t, linktest.NewCA(t))
			stream := connect(t, operator, c.token)
			if c.first == nil {
				sendGarbage(t, stream)
			} else {
				_ = stream.Send(c.first)
			}
			if got := stream.awaitEnd(); got != c.code && c.code != codes.OK {
				t.Errorf("ended with %v, want %v", got, c.code)
			}
			assertRefused(t, operator, c.reason, 1)
			if events := operator.Events(); len(events) != 0 {
				t.Errorf("the consumer was told %v", events)
			}
		})
	}
}

func oldHello() *linkv1.AgentMessage {
	message := hello(coder)
	message.GetHello().Protocol = 0
	return message
}

func oversizeHello() *linkv1.AgentMessage {
	message := hello(coder)
	message.GetHello().Swarm = strings.Repeat("x", 1<<20)
	return message
}

// sendGarbage sends a frame that is not valid protobuf, as unknown fields of a message.
func sendGarbage(t *testing.T, to client) {
	t.Helper()
	sendRaw(t, to, protowire.AppendTag(nil, 1, protowire.BytesType)) // a length is missing
}

func sendRaw(t *testing.T, to client, frame []byte) {
	t.Helper()
	message := &emptypb.Empty{}
	message.ProtoReflect().SetUnknown(frame)
	if err := to.SendMsg(message); err != nil {
		t.Fatal(err)
	}
}

// An oversize frame in the middle of a conversation ends it as well.
func TestOversizeFrameEndsTheStream(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t))
	c, _ := join(t, operator, coder)
	_ = c.Send(oversizeHello())
	if got := c.awaitEnd(); got != codes.ResourceExhausted {
		t.Errorf("ended with %v", got)
	}
	operator.AwaitLeft(t, 1)
	assertRefused(t, operator, "oversize_frame", 1)
}

// A frame of half a million empty attempts would take 65 MB in memory.
func TestHellosOfManyEmptyAttemptsAreRefused(t *testing.T) {
	const streams = 32
	operator := linktest.Start(t, linktest.NewCA(t))
	attempts := bytes.Repeat([]byte{0x3a, 0}, 1<<19-16)
	huge := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), attempts)
	usageBefore := readMemoryUsage()
	for n := range streams {
		c := connect(t, operator, numberedCoder(n).String())
		sendRaw(t, c, huge)
		if got := c.awaitEnd(); got != codes.Internal {
			t.Errorf("ended with %v", got)
		}
		_ = c.conn.Close()
	}
	assertRefused(t, operator, "malformed_frame", streams)
	if events := operator.Events(); len(events) != 0 {
		t.Errorf("the consumer was told of %d", len(events))
	}
	assertMemoryBounded(t, usageBefore, 12, 8<<20)
}

func TestGarbageBytesAreRefused(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t), func(c *link.Config) { c.Limits.HelloTimeout = time.Second })
	raw, err := net.Dial("tcp", operator.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	_, _ = raw.Write([]byte(strings.Repeat("garbage ", 1000)))
	assertRefused(t, operator, "handshake", 1)

	tlsConn, err := tls.Dial("tcp", operator.Address, operator.ClientTLS())
	if err != nil {
		t.Fatal(err)
	}
	defer tlsConn.Close()
	_, _ = tlsConn.Write([]byte(strings.Repeat("garbage ", 1000)))
	assertRefused(t, operator, "no_stream", 1)
	linktest.Eventually(t, "connections are closed", func() bool { return operator.MetricSum(t, "swarm_link_connections", "") == 0 })
}

// A client that connects and sends nothing holds a place no longer than the limit.
func TestSilentConnectionsEnd(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t), func(c *link.Config) { c.Limits.HelloTimeout = 200 * time.Millisecond })
	raw, err := net.Dial("tcp", operator.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	proven := connect(t, operator, coder.String())
	if got := proven.awaitEnd(); got != codes.DeadlineExceeded {
		t.Errorf("a stream without Hello ended with %v", got)
	}
	assertRefused(t, operator, "no_hello", 1)
	assertRefused(t, operator, "handshake", 1)
}

// Half of the places are reserved for agents: linked agents stay, and one of them can reconnect.
func TestFloodOfConnectionsIsBounded(t *testing.T) {
	const limit, linkedAgents, flood = 20, 8, 500
	operator := linktest.Start(t, linktest.NewCA(t), func(c *link.Config) { c.Limits.Connections = limit })
	var agents []client
	for n := range linkedAgents {
		agent, _ := join(t, operator, numberedCoder(n))
		agents = append(agents, agent)
	}
	usageBefore := readMemoryUsage()
	for range flood {
		raw, err := net.Dial("tcp", operator.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
	}
	assertRefused(t, operator, "too_many_connections", flood-limit/2)
	if got := operator.MetricSum(t, "swarm_link_connections", ""); got != linkedAgents+limit/2 {
		t.Errorf("%d connections are open, want %d", got, linkedAgents+limit/2)
	}
	for n, agent := range agents {
		assertEchoed(t, agent, int64(n))
	}
	assertMemoryBounded(t, usageBefore, 6*limit, 8<<20)
}

// The places for agents are bounded as well.
func TestConnectionsOfAgentsAreBounded(t *testing.T) {
	const limit = 6
	operator := linktest.Start(t, linktest.NewCA(t), func(c *link.Config) { c.Limits.Connections = limit })
	for n := range limit {
		join(t, operator, numberedCoder(n))
	}
	floodFrom(t, "127.0.0.1", operator, 1)
	assertRefused(t, operator, "too_many_connections", 1)
}

// An agent, or any client with its token, cannot hold more than a few streams.
func TestStreamsOfOneAgentAreBounded(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t))
	release := make(chan struct{})
	operator.JoinError = func(*linkv1.Hello) error { <-release; return nil } // the first holds its place for a while
	var streams []client
	for range 10 {
		c := connect(t, operator, coder.String())
		c.send(t, hello(coder))
		streams = append(streams, c)
	}
	assertRefused(t, operator, "too_many_streams", 7)
	close(release)
	for _, c := range streams[:9] {
		_ = c.conn.Close()
	}
}

func TestReaderThatNeverReadsIsCutOff(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t), func(c *link.Config) { c.Limits.QueueBytes = 1 << 20 })
	usageBefore := readMemoryUsage()
	c, _ := join(t, operator, coder)
	payload := linktest.Peers(strings.Repeat("p", 16<<10))
	sent := 0
	for operator.Send(coder, payload) == nil {
		sent++
		runtime.Gosched()
		if sent > 10_000 {
			t.Fatal("a reader that never reads was sent 160 MB")
		}
	}
	operator.AwaitLeft(t, 1)
	assertRefused(t, operator, "slow_reader", 1)
	_ = c.conn.Close()
	assertMemoryBounded(t, usageBefore, 12, 8<<20)
}

// A reader that does not even read its socket blocks the server's writes; its connection must not hold the session.
func TestSocketThatIsNeverReadIsCutOff(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t), func(c *link.Config) { c.Limits.QueueBytes = 1 << 20 })
	network := linktest.NewNetwork(t, operator.Address)
	through := *operator
	through.Address = network.Address
	_, _ = join(t, &through, coder)
	network.Freeze()
	payload := linktest.Peers(strings.Repeat("p", 16<<10))
	linktest.Eventually(t, "cut off", func() bool { return operator.Send(coder, payload) != nil })
	operator.AwaitLeft(t, 1)
	assertRefused(t, operator, "slow_reader", 1)
}

func TestFloodOfMessagesIsReadSlowly(t *testing.T) {
	t.Parallel()
	operator := linktest.Start(t, linktest.NewCA(t), func(c *link.Config) { c.Limits.MessagesPerSecond = 50 })
	c, _ := join(t, operator, coder)
	go func() {
		for sequence := int64(1); c.Send(heartbeat(sequence)) == nil; sequence++ {
		}
	}()
	start := time.Now()
	for range 200 {
		c.receive(t)
	}
	// A bucket of 100, one of them spent on Hello, then 50 a second.
	if took := time.Since(start); took < 1900*time.Millisecond {
		t.Errorf("200 messages took %v at 50 a second", took)
	}
	if operator.MetricSum(t, "swarm_link_throttled_total", "") == 0 {
		t.Error("not counted")
	}
}

// Agents that connect and disconnect leave nothing behind.
func TestMemoryStaysFlat(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t), func(c *link.Config) { c.Limits.HelloBurst = 1000 })
	round := func(n int) {
		// In a separate test, because the clients would otherwise be kept until the end of this one.
		t.Run("round", func(t *testing.T) {
			for range n {
				c, _ := join(t, operator, coder)
				c.send(t, heartbeat(1))
				c.receive(t)
				_ = c.conn.Close()
				stranger := connect(t, operator, "stranger")
				stranger.awaitEnd()
				_ = stranger.conn.Close()
			}
		})
		linktest.Eventually(t, "all have left", func() bool { return operator.MetricSum(t, "swarm_link_connections", "") == 0 })
	}
	round(20)
	usageBefore := readMemoryUsage()
	round(200)
	assertMemoryBounded(t, usageBefore, 10, 2<<20)
}

type memoryUsage struct {
	goroutines int
	heap       uint64
}

func readMemoryUsage() memoryUsage {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return memoryUsage{runtime.NumGoroutine(), stats.HeapAlloc}
}

func assertMemoryBounded(t *testing.T, usageBefore memoryUsage, goroutines int, heap uint64) {
	t.Helper()
	linktest.Eventually(t, "goroutines and heap are bounded", func() bool {
		after := readMemoryUsage()
		return after.goroutines <= usageBefore.goroutines+goroutines && after.heap <= usageBefore.heap+heap
	})
	after := readMemoryUsage()
	t.Logf("goroutines %d -> %d, heap %d -> %d KiB", usageBefore.goroutines, after.goroutines, usageBefore.heap>>10, after.heap>>10)
}
