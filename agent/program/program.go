// Package program is the program swarm-agent: the exec runtime as a process that is the entry point of third-party images. It needs nothing
// from the image, not even a C library or a directory other than its own.
package program

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/swarm-io/swarm-operator/agent"
	"github.com/swarm-io/swarm-operator/internal/process/entrypoint"
)

const usage = `usage:
  swarm-agent [run] [--] COMMAND [ARGUMENT...]   take tasks and run the command for each
  swarm-agent copy FILE                          copy this program, for an init container
  swarm-agent version                            print the version
`

var program = entrypoint.Program{Name: "swarm-agent", Usage: usage}

// Main runs the program and returns its exit code. The arguments are those after the program's name.
func Main(version string, arguments []string, stdout, stderr io.Writer) int {
	if len(arguments) == 0 {
		return program.PrintUsage(stderr)
	}
	switch first, remaining := arguments[0], len(arguments)-1; {
	case first == "version" && remaining == 0:
		_, err := fmt.Fprintln(stdout, version)
		return program.Report(err, stderr)
	case first == "copy" && remaining == 1:
		return program.Report(copySelf(arguments[1]), stderr)
	case first == "version", first == "copy", first != "--" && strings.HasPrefix(first, "-"):
		return program.PrintUsage(stderr)
	}
	return run(version, entrypoint.TrimRunPrefix(arguments), stderr)
}

func run(version string, command []string, stderr io.Writer) int {
	if len(command) == 0 {
		return program.PrintUsage(stderr)
	}
	config, err := agent.ConfigFromEnvironment(os.Getenv)
	if err != nil {
		return program.Report(err, stderr)
	}
	config.Version = version
	handler, err := agent.Command(config.RuntimeDir, command...)
	if err != nil {
		return program.Report(err, stderr)
	}
	err = entrypoint.RunUntilSignal(func(ctx context.Context) error { return agent.RunWith(ctx, config, handler) })
	return program.Report(err, stderr)
}
