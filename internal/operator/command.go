package operator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/swarm-io/swarm-operator/internal/operator/podlock"
)

// Build is the version information that the linker sets.
type Build struct{ Version, Commit, Date string }

func (b Build) String() string {
	return fmt.Sprintf("swarm-operator %s (commit %s, %s)", b.Version, b.Commit, b.Date)
}

// namespaceFile is the file with the pod's namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// The exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2 // invalid flags
)

// Command is the program: it reads flags, files and environment, runs, and returns the exit code. Once the flags are parsed, all
// output goes to the log.
func Command(ctx context.Context, arguments []string, build Build, out, log io.Writer) int {
	flags, err := parse(arguments, build)
	switch {
	case errors.Is(err, flag.ErrHelp):
		help(out, flags.flags)
		return exitOK
	case err != nil:
		fmt.Fprintf(log, "swarm-operator: %s: see swarm-operator --help\n", err)
		return exitUsage
	case flags.version:
		fmt.Fprintln(out, build)
		return exitOK
	}
	config, err := Load(flags.config, os.Environ())
	logger := newLogger(log, config.Logging)
	if err != nil {
		logProblems(logger, err)
		return exitError
	}
	if err := start(ctx, config, flags, logger); err != nil {
		logger.Error("ended", "err", err) // logr's key for errors
		return exitError
	}
	return exitOK
}

// commandLine is the result of parsing the flags.
type commandLine struct {
	flags                    *flag.FlagSet
	config, image, namespace string
	version                  bool
	build                    Build
}

func parse(arguments []string, build Build) (commandLine, error) {
	flags := flag.NewFlagSet("swarm-operator", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // Command prints it
	parsed := commandLine{flags: flags, build: build}
	flags.StringVar(&parsed.config, "config", "", "configuration `file`; default: none, only defaults and environment")
	flags.StringVar(&parsed.image, "agent-image", "localhost/swarm-agent:"+build.Version, "`image` that holds /swarm-agent")
	flags.StringVar(&parsed.namespace, "namespace", "", "the operator's own `namespace`; default: the namespace of its pod, else swarm-system")
	flags.BoolVar(&parsed.version, "version", false, "print the version and exit")
	if err := flags.Parse(arguments); err != nil {
		return parsed, err
	}
	if flags.NArg() > 0 {
		return parsed, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return parsed, nil
}

// logProblems logs every problem on its own line.
func logProblems(log *slog.Logger, err error) {
	for problem := range strings.Lines(err.Error()) {
		log.Error("configuration refused", "problem", strings.TrimSuffix(problem, "\n"))
	}
}

// gcPercent is the GC percentage, unless GOGC is set: a program that mostly waits has more CPU time to spare than memory.
const gcPercent = 30

func start(ctx context.Context, config Config, flags commandLine, log *slog.Logger) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	cluster, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find a cluster: %w: set KUBECONFIG, or run in a pod", err)
	}
	podLock, err := podlock.Acquire(os.Getenv("POD_LOCK_DIR"))
	if err != nil {
		return fmt.Errorf("%w: POD_LOCK_DIR must name a directory that can be written, such as an emptyDir volume", err)
	}
	return Run(ctx, config, Environment{
		Cluster: cluster, Namespace: orPodNamespace(flags.namespace), Pod: podName(), Host: os.Getenv("POD_IP"), PodLock: podLock,
		Image: flags.image, Version: flags.build.Version, Log: log,
	})
}

// orPodNamespace returns the given namespace, or else the pod's.
func orPodNamespace(namespace string) string {
	if namespace != "" {
		return namespace
	}
	text, err := os.ReadFile(namespaceFile)
	if err != nil {
		return "swarm-system"
	}
	return strings.TrimSpace(string(text))
}

func podName() string {
	if name := os.Getenv("POD_NAME"); name != "" {
		return name
	}
	host, _ := os.Hostname() // outside of a pod any name will do: kit adds a new id
	return "local-" + host
}
