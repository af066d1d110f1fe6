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
	"github.com/swarm-io/swarm-operator/internal/nonblocking"
)

// ownPrefix begins the names of the agent's own variables; a program gets only those that are meant for it.
const ownPrefix = "SWARM_"

// outputPatience is how long a program waits while its standard error is not read. It is shorter than the time after which the pipes of a program that
// has ended are closed, so no attempt ends late.
const outputPatience = 250 * time.Millisecond

// programOutput is where programs' standard error is copied to. It belongs to the whole process.
var programOutput = sync.OnceValue(func() *nonblocking.Writer {
	return nonblocking.NewWriter(os.Stderr, outputPatience, func(dropped int) {
		_, _ = fmt.Fprintf(os.Stderr, "swarm-agent: dropped %d pieces of output because they were not read\n", dropped)
	})
})

// commandHandler is the exec runtime. Unlike code in our own process, a program can be killed.
type commandHandler struct {
	words  []string
	folder string
}

// Command is a handler that runs a program for each attempt, with the payload on standard input and the result on
// standard output: see docs/explanation/link.md. RuntimeDir is where its pipes are made.
func Command(runtimeDir string, words ...string) (Handler, error) {
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("make command handler: no program is named")
	}
	return &commandHandler{words: words, folder: runtimeDir}, nil
}

// Handle runs the program: SIGTERM when the context ends, SIGKILL when the agent says so. Outside of an agent, in a test
// for example, the end of the context kills at once.
func (h *commandHandler) Handle(ctx context.Context, task Task, report Report) (any, error) {
	if task.kill == nil {
		task.kill = ctx.Done()
	}
	run := command.Run{
		Command: h.words, Environment: environment(os.Environ(), task), Payload: task.Payload,
		Folder: h.folder, Stderr: programOutput(),
		Progress: func(percent int32, message string) { report(int(percent), message) },
	}
	end := command.Verdict(run.Execute(ctx.Done(), task.kill))
	switch {
	case end.Reason != "":
		return nil, &outcomeError{end.Outcome, end.Reason, errors.New(end.Message)}
	case end.Value == nil:
		return nil, nil
	}
	return json.RawMessage(end.Value), nil
}

// environment is the container's own, then the task's, then ours, which cannot be overridden.
func environment(container []string, task Task) []string {
	isOwn := func(variable string) bool { return strings.HasPrefix(variable, ownPrefix) }
	list := slices.DeleteFunc(slices.Clone(container), isOwn)
	for name, value := range task.environment {
		if !isOwn(name) {
			list = append(list, name+"="+value)
		}
	}
	if task.Item >= 0 {
		list = append(list, "SWARM_ITEM="+strconv.Itoa(task.Item))
	}
	return append(list,
		"SWARM_TASK="+task.Name,
		"SWARM_ATTEMPT="+strconv.Itoa(task.Attempt),
		"SWARM_AGENT="+task.Agent,
		"SWARM_PEERS="+strings.Join(task.Peers, ","),
		"SWARM_STATE="+task.StateDir,
		"SWARM_IDEMPOTENCY_KEY="+task.IdempotencyKey(),
	)
}
