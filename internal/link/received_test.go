package link_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

func hostileAgent(n int) link.Agent {
	return link.Agent{Namespace: "hostile", Name: fmt.Sprintf("intruder-%d", n)}
}

// withReceivedBytes sets how much agents may send in total. One namespace gets half of it.
func withReceivedBytes(bytes int) func(*link.Config) {
	return func(c *link.Config) { c.Limits.ReceivedBytes = bytes; c.Limits.MessagesPerSecond = 1 << 30 }
}

func receiveRefusals(t *testing.T, by *linktest.Operator) int {
	t.Helper()
	return by.MetricSum(t, "swarm_link_refused_total", "too_much_received")
}

// assertServed has an agent of another namespace send a lot, and requires that it is heard.
func assertServed(t *testing.T, by *linktest.Operator, open func()) {
	t.Helper()
	c, _ := join(t, by, coder)
	for n := range 100 {
		c.send(t, result(n, 4096))
	}
	assertEchoed(t, c, 1)
	open()
	by.AwaitResult(t, 1, 99)
}

// A new leader that is still reading what is stored handles nothing yet.
func TestReceivedBytesOfANamespaceAreBounded(t *testing.T) {
	const agents, results = 8, 400
	ready := make(chan struct{})
	operator := linktest.Start(t, linktest.NewCA(t), withReceivedBytes(8<<20), func(c *link.Config) { c.Ready = ready })
	usageBefore, endCodes := readMemoryUsage(), make(chan codes.Code, agents)
	var streams []client
	for n := range agents {
		c, _ := join(t, operator, hostileAgent(n))
		streams = append(streams, c)
	}
	for _, c := range streams {
		go func() {
			for n := range results { // 1.6 MiB
				_ = c.Send(result(n, 4096))
			}
			endCodes <- c.awaitEnd()
		}()
	}
	linktest.Eventually(t, "streams are ended", func() bool { return receiveRefusals(t, operator) >= agents-3 })
	for range agents - 3 {
		if code := <-endCodes; code != codes.ResourceExhausted {
			t.Errorf("ended with %s", code)
		}
	}
	assertMemoryBounded(t, usageBefore, 20*agents, 10<<20)
	assertServed(t, operator, func() { close(ready) })
}

// A Hello is kept until the agent has joined.
func TestHellosOfOneNamespaceThatWaitAreBounded(t *testing.T) {
	const agents = 20
	ready := make(chan struct{})
	operator := linktest.Start(t, linktest.NewCA(t), withReceivedBytes(8<<20), func(c *link.Config) { c.Ready = ready })
	for n := range agents {
		first := hello(hostileAgent(n))
		for epoch := range 120 {
			first.GetHello().Unacknowledged = append(first.GetHello().Unacknowledged, result(epoch, 4096).GetResult())
		}
		connect(t, operator, hostileAgent(n).String()).send(t, first) // 500 KiB
	}
	linktest.Eventually(t, "Hellos are refused", func() bool { return receiveRefusals(t, operator) >= agents-8 })
	assertServed(t, operator, func() { close(ready) })
	if got := receiveRefusals(t, operator); got > agents-4 {
		t.Errorf("%d of %d Hellos were refused", got, agents)
	}
}

// A stalling connection passes on only so many bytes.
type stallingConn struct {
	net.Conn
	remaining atomic.Int64
}

func (s *stallingConn) Write(data []byte) (int, error) {
	if s.remaining.Add(-int64(len(data))) < 0 {
		return len(data), nil
	}
	return s.Conn.Write(data)
}

// joinStalling joins, and sends all but the end of a message of the largest size.
func joinStalling(t *testing.T, to *linktest.Operator, as link.Agent, bytes int64) {
	t.Helper()
	dialContext := func(ctx context.Context, address string) (net.Conn, error) {
		raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		slow := &stallingConn{Conn: raw}
		slow.remaining.Store(bytes)
		return slow, nil
	}
	connection, err := grpc.NewClient("passthrough:///"+to.Address, grpc.WithContextDialer(dialContext),
		grpc.WithTransportCredentials(credentials.NewTLS(to.ClientTLS())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+as.String())
	stream, err := linkv1.NewLinkClient(connection).Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := client{stream, connection}
	c.send(t, hello(as))
	_, _ = c.Recv() // earlier ones may have left no room for a Hello
	_ = c.Send(progress(1, 1, strings.Repeat("x", 1000<<10)))
}

// gRPC holds what it has received of a message until the rest has arrived.
func TestMessagesOfOneNamespaceThatNeverEndAreBounded(t *testing.T) {
	const agents = 20
	operator := linktest.Start(t, linktest.NewCA(t), withReceivedBytes(8<<20))
	usageBefore := readMemoryUsage()
	for n := range agents {
		joinStalling(t, operator, hostileAgent(n), 900<<10)
	}
	linktest.Eventually(t, "streams are ended", func() bool { return receiveRefusals(t, operator) >= agents-5 })
	assertServed(t, operator, func() {})
	t.Logf("%d of %d were ended, heap %d -> %d KiB", receiveRefusals(t, operator), agents, usageBefore.heap>>10, readMemoryUsage().heap>>10)
}

// A frame of one byte takes many times as much memory.
func TestFramesOfOneByteAreBounded(t *testing.T) {
	const agents, frames = 4, 60_000
	operator := linktest.Start(t, linktest.NewCA(t), withReceivedBytes(2<<20))
	usageBefore := readMemoryUsage()
	for n := range agents {
		sendTinyFrames(t, operator, hostileAgent(n), frames)
	}
	linktest.Eventually(t, "streams are ended", func() bool { return receiveRefusals(t, operator) >= agents })
	assertMemoryBounded(t, usageBefore, 20*agents, 8<<20)
	assertServed(t, operator, func() {})
}

// sendTinyFrames opens a stream by hand, and sends a message that never ends in frames of one byte.
func sendTinyFrames(t *testing.T, to *linktest.Operator, as link.Agent, frames int) {
	t.Helper()
	shown := to.ClientTLS()
	shown.NextProtos = []string{"h2"}
	raw, err := tls.Dial("tcp", to.Address, shown)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	var headers []byte
	for _, header := range [][2]string{
		{":method", "POST"}, {":scheme", "https"}, {":path", linkv1.Link_Connect_FullMethodName}, {":authority", linktest.ServerName},
		{"content-type", "application/grpc"}, {"te", "trailers"}, {"authorization", "Bearer " + as.String()},
	} {
		headers = append(headers, 0, byte(len(header[0])))
		headers = append(headers, header[0]...)
		headers = append(headers, byte(len(header[1])))
		headers = append(headers, header[1]...)
	}
	sent := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	sent = append(sent, rawFrame(4, 0, 0, nil)...)
	sent = append(sent, rawFrame(1, 4, 1, headers)...)
	sent = append(sent, rawFrame(0, 0, 1, []byte{0, 0, 0xf, 0xff, 0xff})...)
	for range frames {
		sent = append(sent, rawFrame(0, 0, 1, []byte{0})...)
	}
	go func() { _, _ = raw.Write(sent) }()
}

func rawFrame(kind, flags, stream byte, payload []byte) []byte {
	return append([]byte{0, byte(len(payload) >> 8), byte(len(payload)), kind, flags, 0, 0, 0, stream}, payload...)
}

// An agent that is heard may send any amount, one message after the other.
func TestHandledMessagesAreNotCounted(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t), withReceivedBytes(12<<20))
	c, _ := join(t, operator, coder)
	const messages = 60
	for n := range messages {
		c.send(t, progress(n, 1, strings.Repeat("x", 500<<10))) // 30 MiB in all
		assertEchoed(t, c, int64(n))
	}
	for n := range 20_000 { // 1 MiB in small messages
		c.send(t, progress(n, 1, "half way"))
		if n%1000 == 999 {
			assertEchoed(t, c, int64(n))
		}
	}
	if got := receiveRefusals(t, operator); got != 0 {
		t.Errorf("%d streams were ended", got)
	}
}

// What is received on a connection is counted for each of its streams, one after the other.
func TestStreamsOfAConnectionFollowEachOther(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t))
	c, _ := join(t, operator, coder)
	for range 5 {
		_ = c.CloseSend()
		c.awaitEnd()
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+coder.String())
		stream, err := linkv1.NewLinkClient(c.conn).Connect(ctx, grpc.WaitForReady(true))
		if err != nil {
			t.Fatal(err)
		}
		c = client{stream, c.conn}
		again := hello(coder)
		_ = c.Send(again)
		c.receive(t)
		for m := range 20 { // more than one namespace may leave unhandled, one message after the other
			c.send(t, progress(m, 1, strings.Repeat("x", 500<<10)))
			assertEchoed(t, c, int64(m))
		}
	}
	if got := receiveRefusals(t, operator); got != 0 {
		t.Errorf("%d streams were ended", got)
	}
}
