// Command swarm-agent runs a program for each task of a swarm. See agent/program.
package main

import (
	"os"

	"github.com/swarm-io/swarm-operator/agent/program"
)

// Set by the linker: see tools/image.
var (
	version = "dev"
	commit  = "unknown"
	date    = "unknown"
)

func main() {
	os.Exit(program.Main(version+" ("+commit+", "+date+")", os.Args[1:], os.Stdout, os.Stderr))
}
