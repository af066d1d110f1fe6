// Package agent is for writing agents in Go: programs that take tasks from a swarm.
//
//	func main() {
//		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
//		defer stop()
//		err := agent.Run(ctx, agent.HandlerFunc(func(ctx context.Context, task agent.Task, report agent.Report) (any, error) {
//			var question struct{ Text string }
//			if err := task.Decode(&question); err != nil {
//				return nil, err // bad input: the task fails and is not tried again
//			}
//			report(50, "thinking")
//			return map[string]string{"answer": strings.ToUpper(question.Text)}, nil
//		}))
//		...
//	}
//
// It promises that the handler never runs more often at once than the agent has slots, that the context ends when an attempt should stop
// (cancelled, drained, out of time, or the operator is out of reach), and that a result is delivered even when the operator is replaced in
// the meantime. A handler must be ready to get the same task again: it runs at least once, and Task.IdempotencyKey identifies a repetition.
//
// One rule is strict: if code still runs when the agent's lease is over (by default 45 seconds without the operator), the whole process is
// ended, because another agent may get the task from then on. The process also ends, after it has handed back everything else, if code has
// not returned 10 seconds after its grace period, for example after a cancel. So return when the context ends.
package agent

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/swarm-io/swarm-operator/agent/internal/connection"
	"github.com/swarm-io/swarm-operator/agent/internal/session"
	"github.com/swarm-io/swarm-operator/internal/process/hostclock"
	"github.com/swarm-io/swarm-operator/internal/process/nonblocking"
)

// abortLogTimeout is how long a process that must end at once waits for its log.
const abortLogTimeout = 100 * time.Millisecond

// A Task is one attempt at a piece of work.
type Task struct {
	Namespace string
	Name      string
	UID       string
	Item      int // the index of the item, from 0; -1 for a task without items
	Attempt   int // the number of the try, from 1
	Payload   json.RawMessage

	Agent    string   // the agent that runs it
	Peers    []string // the agents at the other end of this one's edges
	StateDir string   // this agent's own directory; it outlives the pod when the swarm declares storage

	environment map[string]string
	kill        <-chan struct{}
}

// IdempotencyKey is the same for every attempt at the same work, and for nothing else.
func (t Task) IdempotencyKey() string {
	if t.Item < 0 {
		return t.UID
	}
	return fmt.Sprintf("%s-%d", t.UID, t.Item)
}

// Decode reads the payload. Its error is one of BadInput.
func (t Task) Decode(into any) error {
	if err := json.Unmarshal(t.Payload, into); err != nil {
		return BadInput(fmt.Errorf("decode payload: %w", err))
	}
	return nil
}

// Report reports the progress of an attempt, from 0 to 100. It can be called at any rate; only the latest report is sent.
type Report func(percent int, message string)

// A Handler does the work. Its result must be at most 4 KiB as JSON.
type Handler interface {
	Handle(ctx context.Context, task Task, report Report) (any, error)
}

// HandlerFunc is a function that is a Handler.
type HandlerFunc func(ctx context.Context, task Task, report Report) (any, error)

// Handle calls the function.
func (f HandlerFunc) Handle(ctx context.Context, task Task, report Report) (any, error) {
	return f(ctx, task, report)
}

// Run takes tasks until the context ends, configured by the pod's environment (ConfigFromEnvironment). It then ends the
// contexts of what still runs, hands it back, and returns.
func Run(ctx context.Context, handler Handler) error {
	config, err := ConfigFromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	return RunWith(ctx, config, handler)
}

// RunWith is Run with a configuration of your own.
func RunWith(ctx context.Context, config Config, handler Handler) error {
	if err := errors.Join(config.validate(), config.connectionConfig().Validate()); err != nil {
		return err
	}
	var logQueue *nonblocking.Queue
	config.Log, logQueue = nonblocking.NewLogger(config.log())
	defer logQueue.Close(flushTimeout)
	journal, err := openJournal(config.Journal, config.Agent, config.Log)
	if err != nil {
		return err
	}
	defer journal.close()
	defer programOutput().Flush(flushTimeout)
	process := rand.Text()
	config.writeTerminationLog(process)
	// The link outlives the context, so that the last results can be sent.
	linkCtx, closeLink := context.WithCancel(context.WithoutCancel(ctx))
	defer closeLink()
	streams, linkClosed := make(chan *connection.Stream), make(chan struct{})
	go func() {
		defer close(linkClosed)
		connection.Run(linkCtx, config.connectionConfig(), streams)
	}()
	sessionConfig := config.sessionConfig(handler, journal, logQueue)
	sessionConfig.Process = process
	session.Run(ctx, sessionConfig, streams)
	closeLink()
	<-linkClosed
	return nil
}

func (c Config) connectionConfig() connection.Config {
	return connection.Config{Addresses: c.Addresses, ServerName: c.ServerName, TokenFile: c.TokenFile, CAFile: c.CAFile, Log: c.log()}
}

func (c Config) sessionConfig(handler Handler, journal session.Journal, logQueue *nonblocking.Queue) session.Config {
	return session.Config{
		Namespace: c.Namespace, Swarm: c.Swarm, Agent: c.Agent, Version: c.Version,
		Slots: c.Slots, Grace: c.Grace, NewWork: c.newWork(handler), Journal: journal,
		Log: c.log(), Clock: c.readClock(), Abort: func(reason string) { c.abort(reason, logQueue) }, StuckTimeout: c.stuckTimeout,
	}
}

func (c Config) log() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.NewJSONHandler(io.Discard, nil))
	}
	return c.Log
}

// writeTerminationLog writes the name of this process to the termination log, from which the kubelet copies it into the container's status
// when the container ends. Together with the name in Hello it proves to the operator which process has ended. The kubelet creates the file;
// without it there is no such proof.
func (c Config) writeTerminationLog(process string) {
	if c.TerminationLog == "" {
		return
	}
	file, err := os.OpenFile(c.TerminationLog, os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = file.WriteString(process)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		c.log().Debug("cannot write the termination message", "error", err)
	}
}

func (c Config) readClock() func() time.Duration {
	if c.clock != nil {
		return c.clock
	}
	return hostclock.BootTime
}

// abort ends the process, which is the only way to end a handler that ignores its context. It does not wait long for a blocked log.
func (c Config) abort(reason string, logQueue *nonblocking.Queue) {
	nonblocking.LogBeforeExit(logQueue, abortLogTimeout, func() {
		c.log().Error("ending the process: work may run elsewhere from now on", "reason", reason)
	})
	if c.Abort != nil {
		c.Abort(reason)
		return
	}
	os.Exit(exitFenced)
}
