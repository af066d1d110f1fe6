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
	chosen, err := parse(arguments)
	if err != nil {
		return err
	}
	ctx, cancel := until(chosen.timeout)
	defer cancel()
	at, err := connect(chosen.kubeconfig)
	if err != nil {
		return err
	}
	wanted, err := rehearse(filepath.Join(chosen.root, "examples", "research"), chosen.image)
	if err != nil {
		return err
	}
	if chosen.remove {
		return at.strike(ctx, os.Stdout, wanted.swarm.GetName())
	}
	err = perform(ctx, at, wanted, chosen)
	if errors.Is(context.Cause(ctx), errInterrupted) {
		return fmt.Errorf("interrupted; what is in the cluster stays there: %s removes it", chosen.next.down)
	}
	return err
}

// until is the time that a run may take. The cause of the context says why it is over.
func until(timeout time.Duration) (context.Context, func()) {
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
	chosen := options{}
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.StringVar(&chosen.root, "root", "", "root of the repository, absolute")
	flags.StringVar(&chosen.kubeconfig, "kubeconfig", "", "the cluster")
	flags.StringVar(&chosen.image, "image", "localhost/swarm-research:dev", "image of the agents")
	flags.StringVar(&chosen.tarball, "tarball", "", "the image as a file, for our development cluster (default: the nodes have it, or can pull it)")
	flags.StringVar(&chosen.picture, "picture", "", "draw the last frame into this file, as SVG")
	flags.DurationVar(&chosen.timeout, "timeout", 3*time.Minute, "how long it may take")
	flags.BoolVar(&chosen.remove, "remove", false, "take the demo out of the cluster again")
	flags.StringVar(&chosen.next.kubectl, "kubectl", "kubectl", "how people call kubectl for this cluster")
	flags.StringVar(&chosen.next.down, "down", "make demo-down", "how people remove the demo")
	if err := flags.Parse(arguments); err != nil {
		return options{}, err
	}
	if chosen.kubeconfig == "" || chosen.root == "" {
		return options{}, errors.New("name the cluster with --kubeconfig, and the repository with --root")
	}
	return chosen, nil
}

// perform is the show from the first object to the last word.
func perform(ctx context.Context, at cluster, wanted play, chosen options) error {
	if err := at.check(ctx); err != nil {
		return err
	}
	if chosen.tarball != "" {
		if err := (host{chosen.root, os.Stdout}).bring(ctx, at.server, chosen.image, chosen.tarball); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := at.stage(ctx, wanted); err != nil {
		return err
	}
	shown := newShow(at, wanted, began)
	if err := shown.toTheEnd(ctx, os.Stdout); err != nil {
		return shown.explain(err, chosen.timeout, chosen.next)
	}
	return shown.conclude(os.Stdout, chosen)
}
