// Command devcluster measures how long the development cluster takes to start on a machine that has built and started it
// before, until its one real node is Ready. Each cluster is removed before the next one is created. Run it with `make bench
// PART=devcluster`, as root.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/swarm-io/swarm-operator/test/bench/report"
)

// rounds are how many clusters are measured, after one that warms the machine up.
const rounds = 5

func main() {
	results := flag.String("results", "test/bench/results.json", "file for the results")
	program := flag.String("program", "bin/devcluster", "the program that is measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measure(ctx, *program, *results)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, program, results string) error {
	r, err := report.New(ctx, "devcluster", "devcluster")
	if err != nil {
		return err
	}
	var took []time.Duration
	for range rounds + 1 {
		one, err := bringUp(ctx, program)
		if err != nil {
			return err
		}
		took = append(took, one)
	}
	took = took[1:]
	slices.Sort(took)
	r.Time(fmt.Sprintf("up --real-nodes 1 until the node is Ready, median of %d", rounds), took[rounds/2].Seconds(), 10, "s")
	r.Time(fmt.Sprintf("[X13/node-ready] up --real-nodes 1 until the node is Ready, slowest of %d", rounds), took[rounds-1].Seconds(), 10, "s")
	return r.Close(results)
}

// bringUp creates a cluster, which returns when its node is Ready, and removes it.
func bringUp(ctx context.Context, program string) (time.Duration, error) {
	folder, err := os.MkdirTemp("", "bench-devcluster-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	data := filepath.Join(folder, "cluster")
	began := time.Now()
	output, err := exec.CommandContext(ctx, program, "up", "--real-nodes", "1", "--data", data).CombinedOutput()
	took := time.Since(began)
	if err != nil {
		err = fmt.Errorf("up: %w: %s", err, output)
	}
	if output, removed := exec.CommandContext(context.WithoutCancel(ctx), program, "down", "--data", data).CombinedOutput(); removed != nil &&
		err == nil {
		err = fmt.Errorf("down: %w: %s", removed, output)
	}
	return took, err
}
