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

// ownNamespace is the file with the pod's namespace.
const ownNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// The exit codes.
const (
	well     = 0
	badly    = 1
	misasked = 2 // invalid flags
)

// Command is the program: it reads flags, files and environment, runs, and returns the exit code. Once the flags are parsed, all
// output goes to the log.
func Command(ctx context.Context, arguments []string, build Build, out, log io.Writer) int {
	asked, err := parse(arguments, build)
	switch {
	case errors.Is(err, flag.ErrHelp):
		help(out, asked.flags)
		return well
	case err != nil:
		fmt.Fprintf(log, "swarm-operator: %s: see swarm-operator --help\n", err)
		return misasked
	case asked.version:
		fmt.Fprintln(out, build)
		return well
	}
	config, err := Load(asked.config, os.Environ())
	logger := logTo(log, config.Logging)
	if err != nil {
		refuse(logger, err)
		return badly
	}
	if err := start(ctx, config, asked, logger); err != nil {
		logger.Error("ended", "err", err) // logr's key for errors
		return badly
	}
	return well
}

// asked is the result of parsing the flags.
type asked struct {
	flags                    *flag.FlagSet
	config, image, namespace string
	version                  bool
	build                    Build
}

func parse(arguments []string, build Build) (asked, error) {
	flags := flag.NewFlagSet("swarm-operator", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // Command prints it
	a := asked{flags: flags, build: build}
	flags.StringVar(&a.config, "config", "", "configuration `file`; left out: defaults and environment only")
	flags.StringVar(&a.image, "agent-image", "localhost/swarm-agent:"+build.Version, "`image` that holds /swarm-agent")
	flags.StringVar(&a.namespace, "namespace", "", "the operator's own `namespace`; left out: that of its pod, else swarm-system")
	flags.BoolVar(&a.version, "version", false, "print the version and exit")
	if err := flags.Parse(arguments); err != nil {
		return a, err
	}
	if flags.NArg() > 0 {
		return a, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return a, nil
}

// refuse logs every problem on a line of its own.
func refuse(log *slog.Logger, err error) {
	for problem := range strings.Lines(err.Error()) {
		log.Error("configuration refused", "problem", strings.TrimSuffix(problem, "\n"))
	}
}

// thrift is the GC percentage, unless GOGC is set: a program that mostly waits has more CPU time to spare than memory.
const thrift = 30

func start(ctx context.Context, config Config, asked asked, log *slog.Logger) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(thrift)
	}
	cluster, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find a cluster: %w: set KUBECONFIG, or run in a pod", err)
	}
	lock, err := podlock.Take(os.Getenv("POD_LOCK_DIR"))
	if err != nil {
		return fmt.Errorf("%w: POD_LOCK_DIR must name a directory that can be written, such as an emptyDir volume", err)
	}
	return Run(ctx, config, Surroundings{
		Cluster: cluster, Namespace: orOwn(asked.namespace), Pod: podName(), Host: os.Getenv("POD_IP"), PodLock: lock,
		Image: asked.image, Version: asked.build.Version, Log: log,
	})
}

// orOwn returns the given namespace, or else the pod's.
func orOwn(namespace string) string {
	if namespace != "" {
		return namespace
	}
	text, err := os.ReadFile(ownNamespace)
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
