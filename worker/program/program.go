// Package program is the program swarm-worker: a worker that runs a command for each of its jobs. Under the name cat it
// prints files, because its image has no other program to inspect the mounted list with.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/swarm-io/swarm-operator/internal/process/processgroup"
	"github.com/swarm-io/swarm-operator/worker"
)

const (
	exitFailed = 1
	exitUsage  = 64
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

// Main runs the program and returns its exit code. The first argument is the program's name.
func Main(version string, arguments []string, stdout, stderr io.Writer) int {
	name, arguments := filepath.Base(arguments[0]), arguments[1:]
	if name == "cat" {
		return report(cat(arguments, os.Stdin, stdout), stderr)
	}
	if len(arguments) == 0 {
		return printUsage(stderr)
	}
	switch first, rest := arguments[0], arguments[1:]; first {
	case "version", "--version":
		_, err := fmt.Fprintln(stdout, version)
		return report(err, stderr)
	case "help", "--help", "-h":
		_, err := io.WriteString(stdout, usage)
		return report(err, stderr)
	case "cat":
		return report(cat(rest, os.Stdin, stdout), stderr)
	case "hold":
		return hold(rest, stderr)
	case "run", "--":
		return run(trimRunPrefix(arguments), stdout, stderr)
	default:
		if strings.HasPrefix(first, "-") {
			return printUsage(stderr)
		}
		return run(arguments, stdout, stderr)
	}
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

// run runs a worker with a program for each job.
func run(command []string, stdout, stderr io.Writer) int {
	if len(command) == 0 {
		return printUsage(stderr)
	}
	return runWorker(stderr, func(config worker.Config) (worker.Jobs, error) {
		return worker.Command(config, stdout, stderr, command...)
	})
}

func hold(arguments []string, stderr io.Writer) int {
	if len(arguments) > 0 {
		return printUsage(stderr)
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
		return report(err, stderr)
	}
	jobs, err := newJobs(config)
	if err != nil {
		return report(err, stderr)
	}
	processgroup.ReapOrphans() // all children of this process are programs of jobs, or orphans of theirs
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return report(worker.RunWith(ctx, config, jobs), stderr)
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

func printUsage(stderr io.Writer) int {
	_, _ = io.WriteString(stderr, usage)
	return exitUsage
}

func report(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(stderr, "swarm-worker:", err)
	return exitFailed
}
