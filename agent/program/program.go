// Package program is the program swarm-agent: the exec runtime as a process that is the entry point of third-party images. It needs nothing
// from the image, not even a C library or a directory other than its own.
package program

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/swarm-io/swarm-operator/agent"
	"github.com/swarm-io/swarm-operator/internal/process/processgroup"
)

const (
	exitFailed = 1
	exitUsage  = 64
)

const usage = `usage:
  swarm-agent [run] [--] COMMAND [ARGUMENT...]   take tasks and run the command for each
  swarm-agent copy FILE                          copy this program, for an init container
  swarm-agent version                            print the version
`

// Main runs the program and returns its exit code. The arguments are those after the program's name.
func Main(version string, arguments []string, stdout, stderr io.Writer) int {
	if len(arguments) == 0 {
		return printUsage(stderr)
	}
	switch first, remaining := arguments[0], len(arguments)-1; {
	case first == "version" && remaining == 0:
		_, err := fmt.Fprintln(stdout, version)
		return report(err, stderr)
	case first == "copy" && remaining == 1:
		return report(copySelf(arguments[1]), stderr)
	case first == "version", first == "copy", first != "--" && strings.HasPrefix(first, "-"):
		return printUsage(stderr)
	}
	return run(version, trimRunPrefix(arguments), stderr)
}

// trimRunPrefix returns the command after "run" and "--".
func trimRunPrefix(arguments []string) []string {
	for _, word := range []string{"run", "--"} {
		if len(arguments) > 0 && arguments[0] == word {
			arguments = arguments[1:]
		}
	}
	return arguments
}

func run(version string, command []string, stderr io.Writer) int {
	if len(command) == 0 {
		return printUsage(stderr)
	}
	config, err := agent.ConfigFromEnvironment(os.Getenv)
	if err != nil {
		return report(err, stderr)
	}
	config.Version = version
	handler, err := agent.Command(config.RuntimeDir, command...)
	if err != nil {
		return report(err, stderr)
	}
	processgroup.ReapOrphans() // all children of this process are programs of attempts, or orphans of theirs
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return report(agent.RunWith(ctx, config, handler), stderr)
}

func printUsage(stderr io.Writer) int {
	_, _ = io.WriteString(stderr, usage)
	return exitUsage
}

func report(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(stderr, "swarm-agent:", err)
	return exitFailed
}
