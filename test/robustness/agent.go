package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/swarm-io/swarm-operator/agent"
)

// Settings for the process of an agent in addition to the variables of its pod.
const (
	agentArgument    = "agent"
	programsArgument = "programs" // attempts are programs, not code in the process of the agent
	journalVariable  = "ROBUSTNESS_JOURNAL"
	processVariable  = "ROBUSTNESS_PROCESS"
)

// A taskOrder is the payload of a task.
type taskOrder struct {
	Milliseconds int  `json:"milliseconds"`
	IgnoresStop  bool `json:"stubborn,omitempty"` // the code ignores requests to stop
	Failures     int  `json:"failures,omitempty"` // this many attempts fail
}

// A worker is the code of an agent. It records each action before it does it.
type worker struct {
	process string
	journal *Journal
	work    func(context.Context, taskOrder, agent.Task) error

	mu     sync.Mutex
	epochs map[string]chan int64 // by UID of the task: the epochs of its attempts, in order
}

// runAgent is the process of an agent.
func runAgent(programs bool) error {
	// A standby redirects agents to the address of the leader, which is not behind the proxies of this run. So that address is a name that
	// does not resolve, and the agent tries its next address, which is behind them. The name must not be resolved outside of this machine.
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("there is no name server")
	}}
	journal, err := openJournal(os.Getenv(journalVariable))
	if err != nil {
		return err
	}
	w := &worker{process: os.Getenv(processVariable), journal: journal, work: work, epochs: map[string]chan int64{}}
	config, err := agent.ConfigFromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	if programs {
		w.work = runInProcessGroup
	}
	config.Log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("process", w.process)
	lines, file, err := os.Pipe()
	if err != nil {
		return err
	}
	config.Journal = fmt.Sprintf("/proc/self/fd/%d", file.Fd())
	go w.read(lines)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return agent.RunWith(ctx, config, w)
}

// read takes the agent's own journal, which knows epochs and acknowledgements.
func (w *worker) read(lines io.Reader) {
	for scanner := bufio.NewScanner(lines); scanner.Scan(); {
		var line struct {
			Event, Task, UID string
			Epoch            int64
		}
		if json.Unmarshal(scanner.Bytes(), &line) != nil {
			continue
		}
		switch line.Event {
		case "start":
			w.epochsOf(line.UID) <- line.Epoch
		case "acknowledge":
			w.journal.Write(Event{Kind: eventAcknowledged, Process: w.process, Task: line.Task, UID: line.UID, Epoch: line.Epoch})
		}
	}
}

func (w *worker) epochsOf(uid string) chan int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.epochs[uid] == nil {
		w.epochs[uid] = make(chan int64, 64)
	}
	return w.epochs[uid]
}

// Handle is one attempt.
func (w *worker) Handle(ctx context.Context, task agent.Task, _ agent.Report) (any, error) {
	var order taskOrder
	if err := task.Decode(&order); err != nil {
		return nil, err
	}
	event := Event{Process: w.process, Task: task.Name, UID: task.UID, Epoch: <-w.epochsOf(task.UID), Run: rand.Text()}
	event.Kind = eventStarted
	w.journal.Write(event)
	err := w.work(ctx, order, task)
	event.Kind, event.Outcome = eventEnded, outcomeOf(ctx, err)
	w.journal.Write(event)
	return event.Run, err
}

// work does the work in the process of the agent, which cannot kill it without ending itself.
func work(ctx context.Context, order taskOrder, task agent.Task) error {
	stop := ctx.Done()
	if order.IgnoresStop {
		stop = nil
	}
	select {
	case <-time.After(time.Duration(order.Milliseconds) * time.Millisecond):
	case <-stop:
		return ctx.Err()
	}
	if task.Attempt <= order.Failures {
		return errors.New("this attempt is to fail")
	}
	return nil
}

// runInProcessGroup does the same in its own process group, and returns when the group has ended.
func runInProcessGroup(ctx context.Context, wanted taskOrder, task agent.Task) error {
	handler, err := agent.Command(task.StateDir, "sh", "-c", wanted.script(task.Attempt))
	if err == nil {
		_, err = handler.Handle(ctx, task, func(int, string) {})
	}
	return err
}

// script returns the work as a shell script.
func (o taskOrder) script(attempt int) string {
	text := fmt.Sprintf("sleep %d.%03d", o.Milliseconds/1000, o.Milliseconds%1000)
	if o.IgnoresStop {
		text = "trap '' TERM; " + text
	}
	if attempt <= o.Failures {
		text += "; exit 1"
	}
	return text
}

func outcomeOf(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return outcomeSucceeded
	case ctx.Err() != nil:
		return outcomeStopped
	}
	return outcomeFailed
}
