// Command demo shows a swarm finishing tasks: it brings up what is missing (a development cluster, the operator, the image of the agents),
// puts the example research into the cluster, shows what happens as it happens, and ends with what was found.
//
// Apart from that it promises to touch nothing outside of namespace swarm-demo, to leave the terminal as it was, also when it is
// interrupted, and to fail when a task did not complete. It makes nothing up: everything that it shows comes from the API server.
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

func main() {
	err := run(os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	opts, err := parse(arguments, os.Getenv("DEVCLUSTER_DATA"))
	if err != nil {
		return err
	}
	ctx, cancel := newRunContext()
	defer cancel()
	here := host{root: opts.root, out: os.Stdout}
	if opts.remove {
		return removeDemo(ctx, here, opts)
	}
	err = runDemo(ctx, here, opts)
	if errors.Is(context.Cause(ctx), errInterrupted) {
		return fmt.Errorf("interrupted; what is in the cluster stays there: %s removes it", opts.next.down)
	}
	return err
}

// newRunContext returns a context that an interrupt ends. Its cause says so.
func newRunContext() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel(errInterrupted)
	}()
	return ctx, func() { cancel(nil) }
}

// runDemo prepares the cluster, which takes as long as it takes, and shows the swarm, which has a limit.
func runDemo(ctx context.Context, here host, opts options) error {
	kubeconfig, err := here.prepare(ctx, opts)
	if err != nil {
		return err
	}
	limited, stop := context.WithTimeoutCause(ctx, opts.timeout, errTimeout)
	defer stop()
	at, manifests, err := open(kubeconfig, opts)
	if err != nil {
		return err
	}
	if err := at.check(limited); err != nil {
		return err
	}
	if tarball := opts.tarball(); tarball != "" {
		if err := here.loadImage(limited, at.server, opts.imageName(), tarball); err != nil {
			return err
		}
	}
	return show(limited, at, manifests, opts)
}

// open connects to the cluster and reads what the demo puts into it.
func open(kubeconfig string, opts options) (cluster, demoManifests, error) {
	at, err := connect(kubeconfig)
	if err != nil {
		return cluster{}, demoManifests{}, err
	}
	manifests, err := readManifests(filepath.Join(opts.root, "examples", "research"), opts.imageName())
	return at, manifests, err
}

// show is the demo from the first object to the last word.
func show(ctx context.Context, c cluster, manifests demoManifests, opts options) error {
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

// removeDemo takes the development cluster down, or the demo out of the cluster that is named.
func removeDemo(ctx context.Context, here host, opts options) error {
	kubeconfig := opts.kubeconfigPath()
	if kubeconfig == "" {
		return here.run(ctx, here.root, filepath.Join(here.root, "bin", "devcluster"), "down")
	}
	limited, stop := context.WithTimeoutCause(ctx, opts.timeout, errTimeout)
	defer stop()
	at, manifests, err := open(kubeconfig, opts)
	if err != nil {
		return err
	}
	return at.uninstall(limited, here.out, manifests.swarm.GetName())
}
