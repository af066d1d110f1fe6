// Command install brings the operator into a cluster and takes it out again.
//
// It promises that no tracked file changes (what an installation adds to deploy/kustomize goes into an overlay in bin/install), that
// the operator restarts when its image or its configuration changes, also under the same name, and that swarms are deleted while the
// operator is there to clean up after them. It never touches another cluster than the named one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "install:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("install", flag.ContinueOnError)
	root := flags.String("root", "", "root of the repository, absolute")
	kubeconfig := flags.String("kubeconfig", "", "the cluster")
	operator := flags.String("operator-image", "", "image of the operator")
	agent := flags.String("agent-image", "", "image that holds /swarm-agent")
	remove := flags.Bool("remove", false, "take the operator out")
	crds := flags.String("crds", "keep", "with --remove: keep the CRDs, or delete them and with them all objects of our kinds")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *kubeconfig == "" || *root == "" {
		return errors.New("name the cluster with --kubeconfig, and the repository with --root")
	}
	target := cluster{root: *root, kubeconfig: *kubeconfig, out: os.Stdout, stderr: os.Stderr}
	if *remove {
		if *crds != "keep" && *crds != "delete" {
			return fmt.Errorf("CRDS=%s: choose keep or delete", *crds)
		}
		return uninstall(ctx, target, *crds == "delete")
	}
	return install(ctx, target, overlay{root: *root, operator: *operator, agent: *agent, tarballs: flags.Args()})
}
