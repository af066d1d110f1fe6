package link_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

// The consumer may take longer than a lease. Agents must not stop their work because of that, however much they send.
func TestHeartbeatsAreAnsweredWhileTheConsumerIsBusy(t *testing.T) {
	for reason, c := range map[string]struct {
		messages int
		message  func(n int) *linkv1.AgentMessage
	}{
		"one message":                {1, func(int) *linkv1.AgentMessage { return credit(1) }},
		"progress of many attempts":  {300, func(n int) *linkv1.AgentMessage { return progress(n, 50, "") }},
		"progress of one attempt":    {2000, func(n int) *linkv1.AgentMessage { return progress(1, n, strings.Repeat("x", 2000)) }},
		"progress of 1,000 attempts": {2000, func(n int) *linkv1.AgentMessage { return progress(n%1000, n, "half way") }},
		"results that are repeated":  {1280, func(n int) *linkv1.AgentMessage { return result(n%128, 4096) }},
	} {
		t.Run(reason, func(t *testing.T) {
			operator := linktest.Start(t, linktest.NewCA(t), withoutRateLimit)
			client, _ := join(t, operator, coder)
			release := operator.Block()
			defer release()
			for n := range c.messages {
				client.send(t, c.message(n))
				if n%50 == 0 || n == c.messages-1 {
					assertEchoed(t, client, int64(n))
				}
			}
		})
	}
}

// Past 2 MiB the operator stops reading from an agent. It neither echoes nor records that the agent was heard, so the lease
// ends, first by the agent's clock and then by the operator's. Nothing is lost, and everything continues when the consumer
// does.
func TestAgentThatSendsTooMuchIsNotReadUntilTheConsumerIsFree(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t), withoutRateLimit)
	client, _ := join(t, operator, coder)
	release := sync.OnceFunc(operator.Block())
	defer release()
	const results = 5000
	sendErr := make(chan error, 1)
	go func() {
		for n := range results {
			if err := client.Send(result(n, 4096)); err != nil {
				sendErr <- err
				return
			}
		}
		sendErr <- client.Send(heartbeat(7))
	}()
	usageBefore := readMemoryUsage()
	linktest.Eventually(t, "the operator reads no more", func() bool { return operator.MetricSum(t, "swarm_link_stalled_total", "") == 1 })
	heard, _ := operator.LastHeard(coder)
	assertMemoryBounded(t, usageBefore, 1, 8<<20) // both ends, the test's and the operator's, of 20 MiB
	if again, _ := operator.LastHeard(coder); again != heard {
		t.Error("an agent was heard whose heartbeat is not echoed")
	}
	release()
	if err := <-sendErr; err != nil {
		t.Fatal(err)
	}
	if echo := client.receive(t).GetEcho(); echo.GetSequence() != 7 {
		t.Errorf("got %v, want the echo of what was sent last", echo)
	}
	operator.AwaitResult(t, 1, results-1)
	if got := operator.MetricSum(t, "swarm_link_messages_total", "result"); got != results {
		t.Errorf("%d of %d results were passed on", got, results)
	}
}

// Only the last report of an attempt counts, and it comes before what the agent sent after the first.
func TestProgressThatWaitsIsReplacedByLaterProgress(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t), withoutRateLimit)
	client, _ := join(t, operator, coder)
	release := sync.OnceFunc(operator.Block())
	defer release()
	client.send(t, credit(1)) // keeps the consumer busy
	assertEchoed(t, client, 1)
	for percent := range 90 {
		client.send(t, progress(1, percent, ""))
		client.send(t, progress(2, percent, ""))
	}
	client.send(t, result(1, 1))
	client.send(t, result(1, 1))
	assertEchoed(t, client, 2)
	release()
	operator.AwaitResult(t, 1, 1)
	reported := map[int64][]int32{}
	for _, event := range operator.Events() {
		if report := event.Message.GetProgress(); report != nil {
			reported[report.GetAttempt().GetEpoch()] = append(reported[report.GetAttempt().GetEpoch()], report.GetPercent())
		}
	}
	if got := fmt.Sprint(reported); got != "map[1:[89] 2:[89]]" {
		t.Errorf("the consumer was told %v, want the last of each before the result", got)
	}
	if got := operator.MetricSum(t, "swarm_link_dropped_total", "superseded"); got != 2*89+1 {
		t.Errorf("%d messages were counted as superseded", got)
	}
}

// What is never handled must not count as waiting for ever: here 2 MiB of reports are replaced, and 512 KiB may wait.
func TestSupersededMessagesDoNotCountAsReceived(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t), withoutRateLimit, withReceivedBytes(1<<20))
	client, _ := join(t, operator, coder)
	release := sync.OnceFunc(operator.Block())
	defer release()
	for percent := range 500 {
		client.send(t, progress(1, percent%100, strings.Repeat("m", 4096)))
	}
	client.send(t, result(1, 1))
	assertEchoed(t, client, 1)
	release()
	operator.AwaitResult(t, 1, 1)
}

// Hello is the one message that is many times larger in memory than on the wire, and only the first one is useful.
func TestSecondHelloDoesNotWait(t *testing.T) {
	operator := linktest.Start(t, linktest.NewCA(t), withoutRateLimit)
	client, _ := join(t, operator, coder)
	release := operator.Block()
	defer release()
	client.send(t, credit(1))
	large := hello(coder)
	for range 1000 {
		large.GetHello().Running = append(large.GetHello().Running, &linkv1.Attempt{})
	}
	usageBefore := readMemoryUsage()
	for n := range int64(200) {
		client.send(t, proto.CloneOf(large))
		assertEchoed(t, client, n)
	}
	assertMemoryBounded(t, usageBefore, 1, 8<<20) // each is 2 KB on the wire and more than 100 KB in memory
}

func withoutRateLimit(c *link.Config) { c.Limits.MessagesPerSecond = int(time.Second) }

func assertEchoed(t *testing.T, client client, sequence int64) {
	t.Helper()
	client.send(t, heartbeat(sequence))
	if echo := client.receive(t).GetEcho(); echo.GetSequence() != sequence {
		t.Errorf("got %v, want an echo of %d", echo, sequence)
	}
}

func progress(epoch, percent int, message string) *linkv1.AgentMessage {
	attempt := linktest.Attempt("survey", int64(epoch))
	return &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Progress{
		Progress: &linkv1.Progress{Attempt: attempt, Percent: int32(percent), Message: message},
	}}
}

func result(epoch, bytes int) *linkv1.AgentMessage {
	attempt, value := linktest.Attempt("survey", int64(epoch)), []byte(strings.Repeat("7", bytes))
	return &linkv1.AgentMessage{Kind: &linkv1.AgentMessage_Result{Result: &linkv1.Result{Attempt: attempt, Value: value}}}
}
