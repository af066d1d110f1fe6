// Command swarm-worker runs a program for each job that a WorkerPool gives to its pod. See worker/program.
package main

import (
	"os"

	"github.com/swarm-io/swarm-operator/worker/program"
)

// Set by the linker: see tools/image.
var (
	version = "dev"
	commit  = "unknown"
	date    = "unknown"
)

func main() {
	os.Exit(program.Main("swarm-worker "+version+" (commit "+commit+", "+date+")", os.Args, os.Stdout, os.Stderr))
}
