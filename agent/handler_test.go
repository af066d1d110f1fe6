package agent_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/agent"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/link/linktest"
)

func TestHandlerInGo(t *testing.T) {
	type question struct{ Number int }
	handlerErr := errors.New("broken")
	for name, c := range map[string]struct {
		handler func(ctx context.Context, task agent.Task, report agent.Report) (any, error)
		outcome linkv1.Outcome
		value   string
		reason  string
		message string
	}{
		"a value": {func(_ context.Context, task agent.Task, report agent.Report) (any, error) {
			var q question
			if err := task.Decode(&q); err != nil {
				return nil, err
			}
			report(50, "half")
			return map[string]any{"twice": 2 * q.Number, "agent": task.Agent, "key": task.IdempotencyKey(), "item": task.Item}, nil
		}, succeeded, `{"agent":"research-coder-0","item":-1,"key":"uid-of-t","twice":42}`, "", ""},
		"nothing": {func(context.Context, agent.Task, agent.Report) (any, error) { return nil, nil }, succeeded, "", "", ""},
		"a failure": {func(context.Context, agent.Task, agent.Report) (any, error) { return nil, handlerErr },
			failed, "", "HandlerFailed", "broken"},
		"another try": {func(context.Context, agent.Task, agent.Report) (any, error) { return nil, agent.Retry(handlerErr) },
			retry, "", "RetryRequested", "broken"},
		"bad input, wrapped": {func(context.Context, agent.Task, agent.Report) (any, error) {
			return nil, fmt.Errorf("read question: %w", agent.BadInput(handlerErr))
		}, badInput, "", "BadInput", "read question: broken"},
		"bad payload": {func(_ context.Context, task agent.Task, _ agent.Report) (any, error) {
			return nil, task.Decode(new(string))
		}, badInput, "", "BadInput", "decode payload"},
		"a panic": {func(context.Context, agent.Task, agent.Report) (any, error) { panic("oh no") },
			failed, "", "HandlerFailed", "panic: oh no"},
		"too large": {func(context.Context, agent.Task, agent.Report) (any, error) { return strings.Repeat("x", 5000), nil },
			failed, "", "ResultTooLarge", "4096"},
		"no JSON": {func(context.Context, agent.Task, agent.Report) (any, error) { return make(chan int), nil },
			failed, "", "HandlerFailed", "encode result"},
		"bytes that are no text": {func(context.Context, agent.Task, agent.Report) (any, error) { return nil, errors.New("\xff\xfe") },
			failed, "", "HandlerFailed", "\uFFFD"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newTestAgent(t)
			a.start(t, agent.HandlerFunc(c.handler))
			a.AwaitCredit(t, 2)
			result := a.runTask(t, `{"number": 21}`)
			if result.GetOutcome() != c.outcome || string(result.GetValue()) != c.value || result.GetReason() != c.reason ||
				!strings.Contains(result.GetMessage(), c.message) {
				t.Errorf("got %v", result)
			}
		})
	}
}

func TestHandlerContextEndsOnCancel(t *testing.T) {
	a := newTestAgent(t)
	a.start(t, agent.HandlerFunc(func(ctx context.Context, _ agent.Task, report agent.Report) (any, error) {
		report(10, "")
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	a.AwaitCredit(t, 2)
	attempt := linktest.Attempt("t", 1)
	a.send(t, linktest.Assign(attempt, "{}"))
	a.AwaitProgress(t, 1, 10)
	a.send(t, linktest.Cancel(attempt, time.Hour))
	if got := a.AwaitResult(t, 1, 1); got.GetOutcome() != cancelled || got.GetReason() != "Cancelled" {
		t.Errorf("got %v", got)
	}
}

func TestConfigFromEnvironment(t *testing.T) {
	set := map[string]string{
		"SWARM_NAMESPACE": "ns", "SWARM_NAME": "research", "SWARM_AGENT": "research-coder-0", "SWARM_SLOTS": "3",
		"SWARM_LINK_ADDRESS": "a:1,b:2", "SWARM_GRACE_SECONDS": "7", "SWARM_TERMINATION_LOG": "/var/log/last-words",
	}
	variable := func(name string) string { return set[name] }
	config, err := agent.ConfigFromEnvironment(variable)
	if err != nil {
		t.Fatal(err)
	}
	if config.Slots != 3 || config.Grace != 7*time.Second || len(config.Addresses) != 2 || config.StateDir != "/var/lib/swarm" ||
		config.TokenFile == "" || config.TerminationLog != "/var/log/last-words" {
		t.Errorf("got %+v", config)
	}
	set["SWARM_SLOTS"], set["SWARM_AGENT"], set["SWARM_GRACE_SECONDS"] = "0", "", "soon"
	_, err = agent.ConfigFromEnvironment(variable)
	for _, part := range []string{"SWARM_AGENT is not set", "SWARM_SLOTS is 0", `SWARM_GRACE_SECONDS="soon"`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
	if err := agent.RunWith(t.Context(), agent.Config{}, nil); err == nil {
		t.Error("an agent without configuration ran")
	}
}

func TestAgentNeedsNeitherLogNorJournal(t *testing.T) {
	a := newTestAgent(t)
	a.config.Log, a.config.Journal = nil, ""
	a.start(t, agent.HandlerFunc(func(context.Context, agent.Task, agent.Report) (any, error) { return 1, nil }))
	a.AwaitCredit(t, 2)
	if result := a.runTask(t, "{}"); result.GetOutcome() != succeeded {
		t.Errorf("got %v", result)
	}
}

// A configured journal is required as evidence: without it the agent does not start.
func TestAgentNeedsItsConfiguredJournal(t *testing.T) {
	a := newTestAgent(t)
	a.config.Journal = filepath.Join(t.TempDir(), "missing", "journal")
	if err := agent.RunWith(t.Context(), a.config, nil); err == nil || !strings.Contains(err.Error(), "open journal") {
		t.Errorf("got %v", err)
	}
}

func TestCommandNeedsAProgram(t *testing.T) {
	if _, err := agent.Command("/tmp"); err == nil {
		t.Error("no program was accepted")
	}
}

// F24: a handler that ignores its context holds its slot forever. The agent hands back the rest, delivers the results, and ends its
// process.
func TestAHandlerThatIgnoresItsContextEndsTheProcess(t *testing.T) {
	t.Parallel()
	a := newTestAgent(t)
	a.config.SetStuckTimeout(300 * time.Millisecond)
	release := make(chan struct{})
	a.start(t, agent.HandlerFunc(func(ctx context.Context, task agent.Task, report agent.Report) (any, error) {
		report(10, "")
		if task.Name == "stuck" {
			<-release
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	t.Cleanup(func() { close(release) })
	a.AwaitCredit(t, 2)
	stuck, other := linktest.Attempt("stuck", 1), linktest.Attempt("other", 2)
	a.send(t, linktest.Assign(stuck, "{}"))
	a.send(t, linktest.Assign(other, "{}"))
	a.AwaitProgress(t, 1, 10)
	a.AwaitProgress(t, 2, 10)
	cancelledAt := time.Now()
	a.send(t, linktest.Cancel(stuck, 200*time.Millisecond))
	if got := a.AwaitResult(t, 1, 2); got.GetOutcome() != handedBack || got.GetReason() != "AgentStopping" {
		t.Errorf("the other attempt: %v", got)
	}
	if took := time.Since(cancelledAt); took < 500*time.Millisecond {
		t.Errorf("the agent gave up after %v, before grace and bound were over", took)
	}
	select {
	case reason := <-a.aborted:
		t.Errorf("the process ended before the result was acknowledged: %s", reason)
	default:
	}
	a.send(t, linktest.Acknowledge(other))
	if reason := <-a.aborted; !strings.Contains(reason, "did not end") {
		t.Errorf("reason %q", reason)
	}
	for _, event := range a.Events() {
		if event.Message.GetGoodbye() != nil {
			t.Error("Goodbye was said while something runs")
		}
	}
}
