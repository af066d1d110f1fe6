// Command devcluster runs real Kubernetes on one machine, for development and tests.
package main

import (
	"os"

	"github.com/swarm-io/swarm-operator/devcluster/internal/cli"
)

func main() { os.Exit(cli.Main()) }
