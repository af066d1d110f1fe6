// Command probe is the program inside test pods: one static binary that serves, reads, writes, waits and resolves names, so that tests need
// no third-party image. Each command prints only its result to standard output, and errors to standard error. The exit status is 0 for
// success, 1 for a failure, and 2 for a wrong command line.
//
// It is for tests only: `serve` serves any file of its container.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sort"
	"syscall"
)

// Stamped by the image builder.
var version, commit, date = "dev", "unknown", "unknown"

// A command runs until it is done or the context ends, which SIGTERM and SIGINT do.
type command struct {
	usage string
	about string
	run   func(ctx context.Context, out io.Writer, arguments []string) error
}

// errUsage marks a wrong command line, as opposed to a command that failed.
var errUsage = errors.New("wrong usage")

func commands() map[string]command {
	return map[string]command{
		"serve":   {"serve [--port P]", "answer HTTP: / host name, /file?path=F content of F, /healthz ok", serve},
		"get":     {"get [--timeout D] URL", "print the body of a successful answer", fetch},
		"lookup":  {"lookup [--timeout D] NAME", "print the addresses of a DNS name, sorted", lookup},
		"cat":     {"cat FILE...", "print files", cat},
		"write":   {"write FILE TEXT", "replace the content of a file by one line", write},
		"journal": {"journal FILE", "append start now and stop at SIGTERM, with host name and time", journal},
		"sleep":   {"sleep [DURATION]", "wait for the duration, or for SIGTERM", sleep},
		"env":     {"env NAME", "print an environment variable; unset is a failure", environment},
		"work": {"work", "be the code of an agent: payload {milliseconds, quickFrom, exit, untilAttempt, output, say} on standard input",
			work},
		"stand":   {"stand", "be a worker of a pool; jobs that begin with stuck do not stop", runPoolWorker},
		"answer":  {"answer [--port P] TEXT", "answer every HTTP request with the text", serveAnswer},
		"version": {"version", "print what this was built from", showVersion},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	status := run(ctx, os.Stdout, os.Stderr, os.Args[1:])
	stop()
	os.Exit(status)
}

func run(ctx context.Context, out, stderr io.Writer, arguments []string) int {
	if len(arguments) == 0 {
		printUsage(stderr)
		return 2
	}
	cmd, known := commands()[arguments[0]]
	if !known {
		fmt.Fprintf(stderr, "probe: unknown command %q\n", arguments[0])
		printUsage(stderr)
		return 2
	}
	err := cmd.run(ctx, out, arguments[1:])
	var own ending
	switch {
	case errors.As(err, &own):
		fmt.Fprintln(stderr, own.text)
		return own.status
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "probe: %v\nusage: probe %s\n", err, cmd.usage)
		return 2
	}
	fmt.Fprintf(stderr, "probe: %v\n", err)
	return 1
}

func printUsage(w io.Writer) {
	cmds := commands()
	names := make([]string, 0, len(cmds))
	for name := range cmds {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Fprintln(w, "usage: probe COMMAND [ARGUMENTS]")
	for _, name := range names {
		fmt.Fprintf(w, "  %-28s %s\n", cmds[name].usage, cmds[name].about)
	}
}

// parse parses the flags and checks the number of arguments that follow them (most < 0: no limit).
func parse(flags *flag.FlagSet, arguments []string, minArguments, maxArguments int) ([]string, error) {
	flags.SetOutput(io.Discard)
	if err := flags.Parse(arguments); err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	if n := flags.NArg(); n < minArguments || (maxArguments >= 0 && n > maxArguments) {
		return nil, fmt.Errorf("%w: %s got %d arguments", errUsage, flags.Name(), n)
	}
	return flags.Args(), nil
}

func newFlags(name string) *flag.FlagSet {
	return flag.NewFlagSet(name, flag.ContinueOnError)
}

func showVersion(_ context.Context, out io.Writer, arguments []string) error {
	if _, err := parse(newFlags("version"), arguments, 0, 0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "probe %s (commit %s, built %s)\n", version, commit, date)
	return err
}
