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

// newWork makes an attempt of an order.
func (c Config) newWork(handler Handler) func(*linkv1.Assign, []string) attempt.WorkFunc {
	return func(assign *linkv1.Assign, peers []string) attempt.WorkFunc {
		task := c.newTask(assign, peers)
		return func(ctx context.Context, kill <-chan struct{}, report attempt.ProgressFunc) attempt.Result {
			task.kill = kill
			return runHandler(ctx, handler, task, report)
		}
	}
}

func (c Config) newTask(assign *linkv1.Assign, peers []string) Task {
	linkAttempt := assign.GetAttempt()
	return Task{
		Namespace: linkAttempt.GetNamespace(), Name: linkAttempt.GetTask(), UID: linkAttempt.GetTaskUid(),
		Item: int(linkAttempt.Key().Item), Attempt: int(linkAttempt.GetAttempt()), Payload: assign.GetPayload(),
		Agent: c.Agent, Peers: peers, StateDir: c.StateDir,
		environment: assign.GetEnvironment(),
	}
}

// runHandler calls a handler; a panic is its failure, not the agent's.
func runHandler(ctx context.Context, handler Handler, task Task, report attempt.ProgressFunc) (result attempt.Result) {
	defer func() {
		if recovered := recover(); recovered != nil {
			result = errorResult(fmt.Errorf("panic: %v\n%s", recovered, debug.Stack()))
		}
	}()
	value, err := handler.Handle(ctx, task, func(percent int, message string) {
		report(int32(max(0, min(percent, 100))), command.TruncateStart(message))
	})
	if err != nil {
		return errorResult(err)
	}
	return valueResult(value)
}

func valueResult(value any) attempt.Result {
	result := attempt.Result{Outcome: linkv1.Outcome_OUTCOME_SUCCEEDED}
	if value == nil {
		return result
	}
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false) // it is never shown unescaped in a page, and it counts against the limit
	if err := encoder.Encode(value); err != nil {
		return errorResult(fmt.Errorf("encode result: %w", err))
	}
	result.Value = bytes.TrimSpace(encoded.Bytes())
	if len(result.Value) > command.MaxResultBytes {
		return command.TooLargeResult()
	}
	return result
}
