package link_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

func TestWelcomeHasTermLeaseAndCommonFeatures(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t), linktest.WithLease(9*time.Second))
	operator.Leader.Lead(7)
	_, welcome := join(t, operator, coder)
	if welcome.GetTerm() != 7 || welcome.GetLease().AsDuration() != 9*time.Second || welcome.GetProtocol() != linkv1.Protocol {
		t.Errorf("got %v", welcome)
	}
	if !slices.Equal(welcome.GetFeatures(), linkv1.Features()) {
		t.Errorf("features %v: want those that both know", welcome.GetFeatures())
	}
	joined := operator.Events()[0]
	if joined.Agent != coder || joined.PodUID != "uid-of-research-coder-0" || joined.Hello.GetSlots() != 2 {
		t.Errorf("the consumer was told %v", joined)
	}
}

func TestHeartbeatIsEchoedAndItsReceiptRemembered(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t))
	if _, ok := operator.LastHeard(coder); ok {
		t.Fatal("heard an agent that never sent anything")
	}
	c, _ := join(t, operator, coder)
	if !operator.Linked(coder) {
		t.Error("an agent with a stream is not linked")
	}
	atHello, _ := operator.LastHeard(coder)
	c.send(t, heartbeat(41))
	if got := c.receive(t).GetEcho().GetSequence(); got != 41 {
		t.Errorf("echo %d, want 41", got)
	}
	atBeat, _ := operator.LastHeard(coder)
	if !atBeat.After(atHello) || time.Since(atBeat) > time.Minute {
		t.Errorf("heard at %v, then at %v", atHello, atBeat)
	}
	_ = c.conn.Close()
	operator.AwaitLeft(t, 1)
	if last, ok := operator.LastHeard(coder); !ok || !last.Equal(atBeat) {
		t.Error("the receipt was forgotten with the stream: the agent may still work")
	}
}

func TestAssignNeedsCredit(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t))
	c, _ := join(t, operator, coder)
	assign := func(epoch int64) error {
		return operator.Send(coder, linktest.Assign(linktest.Attempt("t", epoch), "{}"))
	}
	if err := assign(1); !errors.Is(err, link.ErrNoCredit) {
		t.Errorf("before any credit: %v", err)
	}
	c.send(t, credit(2))
	operator.AwaitCredit(t, 2)
	c.send(t, credit(1)) // late: credit never shrinks
	if err := errors.Join(assign(2), assign(3)); err != nil {
		t.Fatal(err)
	}
	if err := assign(4); !errors.Is(err, link.ErrNoCredit) {
		t.Errorf("beyond the credit: %v", err)
	}
	for _, want := range []int64{2, 3} {
		if got := c.receive(t).GetAssign().GetAttempt().GetEpoch(); got != want {
			t.Errorf("epoch %d, want %d", got, want)
		}
	}
	if got := operator.MetricSum(t, "swarm_link_dropped_total", "no_credit"); got != 2 {
		t.Errorf("counted %d", got)
	}
}

// Payloads that are too large to wait all at once for a slow agent follow when it has read some of them, on the same stream.
func TestBurstOfPayloadsArrivesInOrder(t *testing.T) {
	const burst = 16
	operator := linktest.Start(t, linktest.NewCA(t))
	c, _ := join(t, operator, coder)
	c.send(t, credit(burst))
	operator.AwaitCredit(t, burst)
	payload, sent := strings.Repeat("x", 500<<10), int64(0)
	sendMore := func() (err error) {
		for err == nil && sent < burst {
			if err = operator.Send(coder, linktest.Assign(linktest.Attempt("t", sent+1), payload)); err == nil {
				sent++
			}
		}
		return err
	}
	if err := sendMore(); !errors.Is(err, link.ErrNoRoom) {
		t.Fatalf("%d payloads sent to an agent that reads nothing: %v", sent, err)
	}
	for received := range int64(burst) {
		c.expectPayload(t, received+1, len(payload))
		linktest.Eventually(t, "the next payload is sent", func() bool {
			err := sendMore()
			if err != nil && !errors.Is(err, link.ErrNoRoom) {
				t.Fatal(err)
			}
			return sent > received+1 || sent == burst
		})
	}
	c.send(t, heartbeat(1))
	if c.receive(t).GetEcho().GetSequence() != 1 || !operator.Linked(coder) {
		t.Error("the agent was cut off")
	}
}

func (c client) expectPayload(t *testing.T, epoch int64, size int) {
	t.Helper()
	got := c.receive(t).GetAssign()
	if got.GetAttempt().GetEpoch() != epoch || len(got.GetPayload()) != size {
		t.Fatalf("got epoch %d with %d bytes, want epoch %d with %d", got.GetAttempt().GetEpoch(), len(got.GetPayload()), epoch, size)
	}
}

func TestSendReportsWhyItFails(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t))
	if err := operator.Send(coder, linktest.Drain(0)); !errors.Is(err, link.ErrNotLinked) {
		t.Errorf("to an unknown agent: %v", err)
	}
	c := connect(t, operator, coder.String())
	plain := hello(coder)
	plain.GetHello().Features = nil
	c.send(t, plain)
	c.receive(t)
	if err := operator.Send(coder, linktest.Peers("a")); !errors.Is(err, link.ErrUnsupported) {
		t.Errorf("a feature that the agent did not name: %v", err)
	}
	large := linktest.Peers(string(make([]byte, 2<<20)))
	_, _ = join(t, operator, coder)
	if err := operator.Send(coder, large); !errors.Is(err, link.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
}

func TestFollowerRedirects(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t))
	operator.Leader.Follow("10.0.0.7:9444")
	c := connect(t, operator, coder.String())
	c.send(t, hello(coder))
	if got := c.receive(t).GetRedirect().GetAddress(); got != "10.0.0.7:9444" {
		t.Errorf("redirected to %q", got)
	}
	c.awaitEnd()
	if len(operator.Events()) != 0 {
		t.Error("the consumer of a follower was told of an agent")
	}
}

// A leader that was frozen and replaced must not prolong any lease when it wakes up.
func TestNothingIsSentWithoutLeadership(t *testing.T) {
	for reason, loseLeadership := range map[string]func(*linktest.Leader){
		"leadership lost":      func(l *linktest.Leader) { l.Follow("elsewhere:1") },
		"leadership won again": func(l *linktest.Leader) { l.Lead(2) },
	} {
		t.Run(reason, func(t *testing.T) {
			operator := linktest.Start(t, linktest.NewCA(t))
			c, _ := join(t, operator, coder)
			loseLeadership(operator.Leader)
			if reason == "leadership lost" {
				if err := operator.Send(coder, linktest.Drain(0)); !errors.Is(err, link.ErrNotLeading) {
					t.Errorf("send: %v", err)
				}
			}
			_ = c.Send(heartbeat(1))
			message, err := c.Recv()
			if err == nil {
				t.Errorf("the agent was told %v", message)
			}
			operator.AwaitLeft(t, 1)
		})
	}
}

func TestNewStreamReplacesTheOld(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t))
	first, _ := join(t, operator, coder)
	second, _ := join(t, operator, coder)
	if got := first.awaitEnd(); got != codes.Aborted {
		t.Errorf("the old stream ended with %v", got)
	}
	second.send(t, heartbeat(1))
	second.receive(t)
	events := joinsAndLeaves(operator)
	if len(events) != 3 || events[0].Hello == nil || !events[1].HasLeft || events[2].Hello == nil {
		t.Errorf("the consumer saw %v: want joined, left, joined", events)
	}
	assertRefused(t, operator, "replaced", 1)
}

func TestConsumerMayRefuse(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t))
	operator.JoinError = func(h *linkv1.Hello) error { return errors.New("swarm " + h.GetSwarm() + " does not exist") }
	c := connect(t, operator, coder.String())
	c.send(t, hello(coder))
	if got := c.receive(t).GetRefuse(); got.GetMessage() != "swarm research does not exist" {
		t.Errorf("told %v", got)
	}
	c.awaitEnd()
	linktest.Eventually(t, "the place is free again", func() bool { return !operator.Linked(coder) })
	assertRefused(t, operator, "not_wanted", 1)
	operator.AwaitLeft(t, 1) // it was asked for a lease, which it remembers until then
}

func TestSilentAgentIsCutOff(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t), linktest.WithLease(100*time.Millisecond))
	c, _ := join(t, operator, coder)
	if got := c.awaitEnd(); got != codes.Aborted {
		t.Errorf("ended with %v", got)
	}
	assertRefused(t, operator, "silent", 1)
}

func TestStoppingAsksAgentsToReconnect(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t))
	c, _ := join(t, operator, coder)
	ended := make(chan codes.Code)
	go func() { ended <- c.awaitEnd() }()
	operator.Stop()
	if got := <-ended; got != codes.Unavailable {
		t.Errorf("ended with %v", got)
	}
	operator.AwaitLeft(t, 1)
}

func TestServerNeedsItsParts(t *testing.T) {
	if _, err := link.New(link.Config{}); err == nil {
		t.Error("a server without parts was made")
	}
}

// A term that no leader has issued is not passed on, and the agent is asked to forget it.
func TestTermsAreAcceptedOnlyWithProof(t *testing.T) {
	for name, c := range map[string]struct {
		term   int64
		proof  string
		passed int64
	}{
		"none":               {0, "", 0},
		"proven":             {5, "5", 5},
		"without proof":      {5, "", 0},
		"of another term":    {6, "5", 0},
		"the highest number": {1<<63 - 1, "5", 0},
	} {
		t.Run(name, func(t *testing.T) {
			operator := linktest.Start(t, linktest.NewCA(t))
			operator.Leader.Lead(7)
			message := hello(coder)
			message.GetHello().Term, message.GetHello().TermProof = c.term, []byte(c.proof)
			agent := connect(t, operator, coder.String())
			agent.send(t, message)
			welcome := agent.receive(t).GetWelcome()
			if welcome.GetResetTerm() != (c.passed != c.term) || string(welcome.GetTermProof()) != "7" {
				t.Errorf("welcome %v", welcome)
			}
			if heard := operator.AwaitHello(t, 1); heard.GetTerm() != c.passed {
				t.Errorf("passed on term %d", heard.GetTerm())
			}
		})
	}
}
