package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/swarm-io/swarm-operator/internal/testkit/audit"
	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

// The ports of the operator. Benchmarks on one machine do not share them.
var (
	linkPort    = ports.Free() // where the agents in this process find the operator
	metricsPort = ports.Free()
	healthPort  = ports.Free()
	apiPort     = ports.Free()
)

// An operator is the program under test.
type operator struct {
	command *exec.Cmd
	group   *memoryGroup
	lines   atomic.Int64 // that it has logged
	leading atomic.Bool
}

// startOperator starts the operator as `make run` does, with its own ports and extra settings.
func (c *cluster) startOperator(ctx context.Context, settings ...string) (*operator, error) {
	group, err := newMemoryGroup()
	if err != nil {
		return nil, fmt.Errorf("%w: run it as root", err)
	}
	wrapped := group.wrap("bin/swarm-operator")
	command := exec.CommandContext(ctx, wrapped[0], wrapped[1:]...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.Env = append(os.Environ(),
		"SWARM_METRICS_SECURE=false", "SWARM_METRICS_PORT="+metricsPort, "SWARM_HEALTH_PORT="+healthPort, "SWARM_API_PORT="+apiPort,
		"SWARM_WEBHOOK_ENABLED=false", "SWARM_LINK_PORT="+linkPort, "SWARM_LINK_ADDRESS=127.0.0.1:"+linkPort,
		"SWARM_LIMITS_CONNECTIONS_PER_SOURCE=10000") // all agents are on this machine
	command.Env = append(command.Env, settings...) // the last one counts
	log, err := command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the operator: %w: run `make build` first", err)
	}
	started := &operator{command: command, group: group}
	go started.count(log)
	return started, nil
}

// awaitLeading waits until the operator leads, according to its log.
func (o *operator) awaitLeading(ctx context.Context) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return o.leading.Load(), nil
	})
}

// count keeps the log in its own file, after those of earlier operators, so that the lines can be looked up.
func (o *operator) count(log io.Reader) {
	tee, err := os.OpenFile("bin/bench-operator.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		tee = os.Stderr
	}
	defer tee.Close()
	for scanner := bufio.NewScanner(log); scanner.Scan(); {
		o.lines.Add(1)
		if strings.Contains(scanner.Text(), "Starting workers") {
			o.leading.Store(true)
		}
		fmt.Fprintln(tee, scanner.Text())
	}
}

func (o *operator) stop() {
	_ = o.command.Process.Signal(syscall.SIGTERM)
	_ = o.command.Wait()
	o.group.remove()
}

// memory is the resident set in MB, of which a MiB is a little more.
func (o *operator) memory() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", o.command.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kib * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("read memory: no VmRSS in %q", text)
}

// cpuTime is how much processor time the operator has used so far. It measures cost even when other programs keep the machine busy.
func (o *operator) cpuTime() (time.Duration, error) { return processorTime(o.command.Process.Pid) }

// processorTime is how much a process has used so far.
func processorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	_, after, _ := strings.Cut(string(text), ") ") // the part before it includes the program's name
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0, fmt.Errorf("read processor time: %q", text)
	}
	user, wrongUser := strconv.ParseInt(fields[11], 10, 64)
	system, wrongSystem := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(wrongUser, wrongSystem) // Linux counts in hundredths of a second
}

// ignoredResources are requests that store nothing, and the leader's Lease, which is renewed every second in any case.
var ignoredResources = []string{"leases", "tokenreviews", "subjectaccessreviews"}

// writes are what the operator has written since a moment, as seen by the API server.
func (c *cluster) writes(since time.Time) ([]audit.Request, error) {
	all, err := c.requests(since)
	return slices.DeleteFunc(all, func(seen audit.Request) bool {
		return !slices.Contains([]string{"create", "update", "patch", "delete"}, seen.Verb) ||
			slices.Contains(ignoredResources, seen.Object.Resource)
	}), err
}

// requests are all requests of the operator since a moment.
func (c *cluster) requests(since time.Time) ([]audit.Request, error) {
	return audit.Read(c.audit, audit.Filter{UserAgent: "swarm-operator/", Since: since})
}
