// Command bench measures the operator as a program on a real API server and prints, for each measure, what it found beside what it should
// be. Pods are simulated; their agents are real and run in this process, so a task's way is whole: API server, operator, link, agent and
// back. Counts that miss their target fail it; times never do, because machines differ. Run it by `make bench`.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/swarm-io/swarm-operator/agent"
	"github.com/swarm-io/swarm-operator/internal/testkit/crew"
	"github.com/swarm-io/swarm-operator/test/bench/report"
)

func main() {
	results := flag.String("results", "bench/results.json", "file for the results")
	quiet := flag.Duration("quiet", 2*time.Minute, "how long idle swarms are watched")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *results, *quiet)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// A bench is what measures need.
type bench struct {
	cluster  *cluster
	operator *operator
	report   *report.Report
	quiet    time.Duration
}

func run(ctx context.Context, results string, quiet time.Duration) error {
	cluster, err := connect(ctx)
	if err != nil {
		return err
	}
	operator, err := cluster.operate(ctx)
	if err != nil {
		return err
	}
	agents, err := crew.Start(ctx, cluster.config, crew.Options{Handler: agent.HandlerFunc(work)})
	if err != nil {
		return err
	}
	defer agents.Stop()
	b := &bench{cluster: cluster, operator: operator, report: report.New("operator"), quiet: quiet}
	defer func() { b.operator.stop() }()
	for _, measure := range []func(context.Context) error{b.rest, b.writes, b.latency, b.idle, b.pools} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return b.report.Close(results)
}

// work lasts as long as its payload says.
func work(ctx context.Context, task agent.Task, _ agent.Report) (any, error) {
	var payload struct {
		Milliseconds int `json:"milliseconds"`
	}
	if err := json.Unmarshal(task.Payload, &payload); err != nil {
		return nil, agent.BadInput(err)
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Duration(payload.Milliseconds) * time.Millisecond):
		return map[string]string{"agent": task.Agent}, nil
	}
}
