// Package program is the program swarm-worker: a worker that runs a command for each of its jobs. Under the name cat it
// prints files, because its image has no other program to inspect the mounted list with.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/swarm-io/swarm-operator/internal/process/entrypoint"
	"github.com/swarm-io/swarm-operator/worker"
)

const usage = `usage:
  swarm-worker [run] [--] COMMAND [ARGUMENT...]   run the command once for each job of this pod, with SWARM_JOB set
  swarm-worker hold                               take jobs and run nothing, to see how they are shared out
  swarm-worker cat [FILE...]                      print files; also when the program is called cat
  swarm-worker version                            print the version; also --version

environment:
  POD_NAME, POD_UID           who this is (downward API), needed
  SWARM_CONFIG                the list, default /app/config/config.yml
  SWARM_CONFIG_VERSION_FILE   the pod's annotation swarm.io/config-version (downward API volume), default /app/pod/config-version
  SWARM_PORT                  of /internal/version and /internal/health, default 9090
  SWARM_GRACE_SECONDS         between SIGTERM and SIGKILL, default 20
  SWARM_LEASE_SECONDS         hold a Lease of so many seconds while jobs run (docs/reference/worker.md), default 0: none
  SWARM_JOURNAL               a file for starts, stops and acknowledgements, default none
`

var program = entrypoint.Program{Name: "swarm-worker", Usage: usage}

// Main runs the program and returns its exit code. The first argument is the program's name.
func Main(version string, arguments []string, stdout, stderr io.Writer) int {
	name, arguments := filepath.Base(arguments[0]), arguments[1:]
	if name == "cat" {
		return program.Report(cat(arguments, os.Stdin, stdout), stderr)
	}
	if len(arguments) == 0 {
		return program.PrintUsage(stderr)
	}
	switch first, rest := arguments[0], arguments[1:]; first {
	case "version", "--version":
		_, err := fmt.Fprintln(stdout, version)
		return program.Report(err, stderr)
	case "help", "--help", "-h":
		_, err := io.WriteString(stdout, usage)
		return program.Report(err, stderr)
	case "cat":
		return program.Report(cat(rest, os.Stdin, stdout), stderr)
	case "hold":
		return hold(rest, stderr)
	case "run", "--":
		return run(entrypoint.TrimRunPrefix(arguments), stdout, stderr)
	default:
		if strings.HasPrefix(first, "-") {
			return program.PrintUsage(stderr)
		}
		return run(arguments, stdout, stderr)
	}
}

// run runs a worker with a program for each job.
func run(command []string, stdout, stderr io.Writer) int {
	if len(command) == 0 {
		return program.PrintUsage(stderr)
	}
	return runWorker(stderr, func(config worker.Config) (worker.Jobs, error) {
		return worker.Command(config, stdout, stderr, command...)
	})
}

func hold(arguments []string, stderr io.Writer) int {
	if len(arguments) > 0 {
		return program.PrintUsage(stderr)
	}
	return runWorker(stderr, func(worker.Config) (worker.Jobs, error) { return noopJobs{}, nil })
}

// noopJobs is a job that only exists: the log and the journal record it.
type noopJobs struct{}

func (noopJobs) Start(context.Context, string) error { return nil }
func (noopJobs) Stop(context.Context, string) error  { return nil }

func runWorker(stderr io.Writer, newJobs func(worker.Config) (worker.Jobs, error)) int {
	config, err := worker.ConfigFromEnvironment(os.Getenv)
	if err != nil {
		return program.Report(err, stderr)
	}
	jobs, err := newJobs(config)
	if err != nil {
		return program.Report(err, stderr)
	}
	err = entrypoint.RunUntilSignal(func(ctx context.Context) error { return worker.RunWith(ctx, config, jobs) })
	return program.Report(err, stderr)
}

// cat prints files, or standard input when none is named. A file that cannot be read does not stop it from printing the others.
func cat(files []string, stdin io.Reader, stdout io.Writer) error {
	if len(files) == 0 {
		files = []string{"-"}
	}
	var problems []error
	for _, name := range files {
		problems = append(problems, catFile(name, stdin, stdout))
	}
	return errors.Join(problems...)
}

func catFile(name string, stdin io.Reader, stdout io.Writer) error {
	input := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		input = file
	}
	_, err := io.Copy(stdout, input)
	return err
}
