// Command demo shows a swarm finishing tasks: it puts the example research into a cluster where the operator runs, shows what happens as it
// happens, and ends with what was found.
//
// It promises to touch nothing outside of namespace swarm-demo, to leave the terminal as it was, also when it is interrupted, and to fail
// when a task did not complete. It makes nothing up: everything that it shows comes from the API server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

type options struct {
	root       string
	kubeconfig string
	image      string
	tarball    string
	picture    string
	timeout    time.Duration
	remove     bool
	next       hints
}

func main() {
	err := run(os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	opts, err := parse(arguments)
	if err != nil {
		return err
	}
	ctx, cancel := newRunContext(opts.timeout)
	defer cancel()
	at, err := connect(opts.kubeconfig)
	if err != nil {
		return err
	}
	manifests, err := readManifests(filepath.Join(opts.root, "examples", "research"), opts.image)
	if err != nil {
		return err
	}
	if opts.remove {
		return at.uninstall(ctx, os.Stdout, manifests.swarm.GetName())
	}
	err = runDemo(ctx, at, manifests, opts)
	if errors.Is(context.Cause(ctx), errInterrupted) {
		return fmt.Errorf("interrupted; what is in the cluster stays there: %s removes it", opts.next.down)
	}
	return err
}

// newRunContext is the time that a run may take. The cause of the context says why it is over.
func newRunContext(timeout time.Duration) (context.Context, func()) {
	limited, stop := context.WithTimeoutCause(context.Background(), timeout, errTimeout)
	ctx, cancel := context.WithCancelCause(limited)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel(errInterrupted)
	}()
	return ctx, func() { cancel(nil); stop() }
}

func parse(arguments []string) (options, error) {
	opts := options{}
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.StringVar(&opts.root, "root", "", "root of the repository, absolute")
	flags.StringVar(&opts.kubeconfig, "kubeconfig", "", "the cluster")
	flags.StringVar(&opts.image, "image", "localhost/swarm-research:dev", "image of the agents")
	flags.StringVar(&opts.tarball, "tarball", "",
		"the image as a file, for our development cluster (default: the nodes have it, or can pull it)")
	flags.StringVar(&opts.picture, "picture", "", "draw the last frame into this file, as SVG")
	flags.DurationVar(&opts.timeout, "timeout", 3*time.Minute, "how long it may take")
	flags.BoolVar(&opts.remove, "remove", false, "take the demo out of the cluster again")
	flags.StringVar(&opts.next.kubectl, "kubectl", "kubectl", "how people call kubectl for this cluster")
	flags.StringVar(&opts.next.down, "down", "make demo-down", "how people remove the demo")
	if err := flags.Parse(arguments); err != nil {
		return options{}, err
	}
	if opts.kubeconfig == "" || opts.root == "" {
		return options{}, errors.New("name the cluster with --kubeconfig, and the repository with --root")
	}
	return opts, nil
}

// runDemo is the show from the first object to the last word.
func runDemo(ctx context.Context, c cluster, manifests demoManifests, opts options) error {
	if err := c.check(ctx); err != nil {
		return err
	}
	if opts.tarball != "" {
		if err := (host{opts.root, os.Stdout}).loadImage(ctx, c.server, opts.image, opts.tarball); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := c.install(ctx, manifests); err != nil {
		return err
	}
	shown := newSession(c, manifests, began)
	if err := shown.runOnDisplay(ctx, os.Stdout); err != nil {
		return shown.explain(err, opts.timeout, opts.next)
	}
	return shown.printSummary(os.Stdout, opts)
}
