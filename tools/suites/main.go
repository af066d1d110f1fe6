// Command suites runs the Ginkgo suites below test/, several at a time, each kind on development clusters of its own.
//
// Suites are found by looking for test files, so that none can be forgotten. A lane runs one suite after another; when no suite is left for
// the kind of cluster that it has, it replaces the cluster. Everything that a suite prints goes to a file, and a failure leaves under
// bin/results/failures what explains it. Clusters are held by a pipe to this process: however it ends, they end too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

type options struct {
	root       string
	kubeconfig string // of an existing cluster; empty: development clusters
	lanes      int
	timeout    time.Duration // of one suite
	levels     []string
	only       []string
	focus      string // a regular expression for names of specs
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "suites:", err)
		os.Exit(1)
	}
}

func parse(arguments []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("suites", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "usage: suites [flags] LEVEL...\nlevels: %s\n", strings.Join(levels, ", "))
		flags.PrintDefaults()
	}
	flags.StringVar(&o.root, "root", ".", "root of the repository")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "run on this cluster, one suite after another, instead of development clusters")
	flags.IntVar(&o.lanes, "lanes", 2, "how many suites run at the same time")
	flags.DurationVar(&o.timeout, "timeout", 15*time.Minute, "how long a suite may take")
	flags.StringVar(&o.focus, "focus", "", "run only specs whose text matches this regular expression")
	only := flags.String("only", "", "run only these suites, separated by commas, such as integration/pool")
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	o.levels = flags.Args()
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	for _, level := range o.levels {
		if !slices.Contains(levels, level) {
			return o, fmt.Errorf("no level %q: name some of %s", level, strings.Join(levels, ", "))
		}
	}
	if len(o.levels) == 0 || o.lanes < 1 {
		return o, fmt.Errorf("name at least one level of %s, and at least one lane", strings.Join(levels, ", "))
	}
	root, err := filepath.Abs(o.root)
	o.root = root
	return o, err
}

func run(ctx context.Context, arguments []string) error {
	opts, err := parse(arguments)
	if err != nil {
		return err
	}
	suites, err := find(opts)
	if err != nil {
		return err
	}
	unlock, err := lock(opts.root)
	if err != nil {
		return err
	}
	defer unlock()
	r := newRunner(opts, suites)
	if err := r.prepare(ctx); err != nil {
		return err
	}
	return r.run(ctx)
}

// lock keeps two runs in one working tree from overwriting each other's programs and results. Runs in different trees are independent.
func lock(root string) (unlock func(), err error) {
	path := filepath.Join(root, "bin", "suites.lock")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("create lock: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(errors.New("another run uses this working tree: wait for it, or use another clone"), file.Close())
	}
	return func() { _ = file.Close() }, nil
}
