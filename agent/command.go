package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/swarm-io/swarm-operator/agent/internal/command"
	"github.com/swarm-io/swarm-operator/internal/process/nonblocking"
)

// variablePrefix is the prefix of the agent's own variables; a program gets only those that are meant for it.
const variablePrefix = "SWARM_"

// outputTimeout is how long a program blocks while nothing reads its standard error. It is shorter than the time after which the pipes of
// an ended program are closed, so no attempt ends late.
const outputTimeout = 250 * time.Millisecond

// programOutput receives a copy of the programs' standard error. The whole process shares it.
var programOutput = sync.OnceValue(func() *nonblocking.Writer {
	return nonblocking.NewWriter(os.Stderr, outputTimeout, func(dropped int) {
		_, _ = fmt.Fprintf(os.Stderr, "swarm-agent: dropped %d pieces of output because they were not read\n", dropped)
	})
})

// commandHandler is the exec runtime. Unlike code in our own process, a program can be killed.
type commandHandler struct {
	argv       []string
	runtimeDir string
}

// Command is a handler that runs a program for each attempt, with the payload on standard input and the result on
// standard output: see docs/explanation/link.md. RuntimeDir is where its pipes are made.
func Command(runtimeDir string, argv ...string) (Handler, error) {
	if len(argv) == 0 || argv[0] == "" {
		return nil, errors.New("make command handler: no program given")
	}
	return &commandHandler{argv: argv, runtimeDir: runtimeDir}, nil
}

// Handle runs the program: it sends SIGTERM when the context ends, and SIGKILL when the agent kills the attempt. Outside of an agent, for
// example in a test, the end of the context kills at once.
func (h *commandHandler) Handle(ctx context.Context, task Task, report Report) (any, error) {
	if task.kill == nil {
		task.kill = ctx.Done()
	}
	execution := command.Run{
		Command: h.argv, Environment: environment(os.Environ(), task), Payload: task.Payload,
		Dir: h.runtimeDir, Stderr: programOutput(),
		Progress: func(percent int32, message string) { report(int(percent), message) },
	}
	result := command.ResultOf(execution.Execute(ctx.Done(), task.kill))
	switch {
	case result.Reason != "":
		return nil, &outcomeError{result.Outcome, result.Reason, errors.New(result.Message)}
	case result.Value == nil:
		return nil, nil
	}
	return json.RawMessage(result.Value), nil
}

// environment returns the container's variables, then the task's, then ours, which cannot be overridden.
func environment(container []string, task Task) []string {
	isOwn := func(variable string) bool { return strings.HasPrefix(variable, variablePrefix) }
	variables := slices.DeleteFunc(slices.Clone(container), isOwn)
	for name, value := range task.environment {
		if !isOwn(name) {
			variables = append(variables, name+"="+value)
		}
	}
	if task.Item >= 0 {
		variables = append(variables, "SWARM_ITEM="+strconv.Itoa(task.Item))
	}
	return append(variables,
		"SWARM_TASK="+task.Name,
		"SWARM_ATTEMPT="+strconv.Itoa(task.Attempt),
		"SWARM_AGENT="+task.Agent,
		"SWARM_PEERS="+strings.Join(task.Peers, ","),
		"SWARM_STATE="+task.StateDir,
		"SWARM_IDEMPOTENCY_KEY="+task.IdempotencyKey(),
	)
}
