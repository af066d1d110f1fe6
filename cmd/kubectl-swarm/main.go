// Command kubectl-swarm shows worker pools and what would move in them: `kubectl swarm`. See internal/cli.
package main

import (
	"context"
	"os"
	"os/signal"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/swarm-io/swarm-operator/internal/cli"
)

// Set by the linker: see tools/image.
var (
	version = "dev"
	commit  = "unknown"
	date    = "unknown"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	build := cli.Build{Version: version, Commit: commit, Date: date}
	code := cli.Main(ctx, os.Args[1:], build, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	stop()
	os.Exit(code)
}
