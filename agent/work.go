package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"

	"github.com/swarm-io/swarm-operator/agent/internal/attempt"
	"github.com/swarm-io/swarm-operator/agent/internal/command"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

// work makes an attempt of an order.
func (c Config) work(handler Handler) func(*linkv1.Assign, []string) attempt.Work {
	return func(order *linkv1.Assign, peers []string) attempt.Work {
		task := c.task(order, peers)
		return func(ctx context.Context, kill <-chan struct{}, report attempt.Report) attempt.End {
			task.kill = kill
			return invoke(ctx, handler, task, report)
		}
	}
}

func (c Config) task(order *linkv1.Assign, peers []string) Task {
	given := order.GetAttempt()
	return Task{
		Namespace: given.GetNamespace(), Name: given.GetTask(), UID: given.GetTaskUid(),
		Item: int(given.Key().Item), Attempt: int(given.GetAttempt()), Payload: order.GetPayload(),
		Agent: c.Agent, Peers: peers, StateDir: c.StateDir,
		environment: order.GetEnvironment(),
	}
}

// invoke calls a handler; a panic is its failure, not the agent's.
func invoke(ctx context.Context, handler Handler, task Task, report attempt.Report) (end attempt.End) {
	defer func() {
		if cause := recover(); cause != nil {
			end = endOf(fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
		}
	}()
	value, err := handler.Handle(ctx, task, func(percent int, message string) {
		report(int32(max(0, min(percent, 100))), command.Shorten(message))
	})
	if err != nil {
		return endOf(err)
	}
	return endWith(value)
}

func endWith(value any) attempt.End {
	end := attempt.End{Outcome: linkv1.Outcome_OUTCOME_SUCCEEDED}
	if value == nil {
		return end
	}
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false) // it is never shown unescaped in a page, and it counts against the limit
	if err := encoder.Encode(value); err != nil {
		return endOf(fmt.Errorf("encode result: %w", err))
	}
	end.Value = bytes.TrimSpace(encoded.Bytes())
	if len(end.Value) > command.MostResult {
		return command.TooLarge()
	}
	return end
}
