// Package cli is the command line of the development cluster: one function per command, all work elsewhere.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/swarm-io/swarm-operator/devcluster/internal/bundle"
)

const about = `devcluster runs real Kubernetes on this machine, built from Go modules: etcd, API server, controller manager, scheduler,
and nodes that are real (kubelet and containerd, needs root) or simulated (kwok).

It is for development and tests only, NEVER for production: its data is thrown away and its API
trusts every user who can read the data folder.`

// Exit codes: 0 done, 1 failed, 130 interrupted; `run` gives the code of its command.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Main runs the command line and gives the exit code.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := root().ExecuteContext(ctx)
	var code exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	default:
		fmt.Fprintln(os.Stderr, "devcluster:", err)
	}
	if ctx.Err() != nil {
		return 130
	}
	return 1
}

func root() *cobra.Command {
	command := &cobra.Command{Use: "devcluster", Short: "Real Kubernetes on this machine, for development", Long: about, SilenceErrors: true,
		SilenceUsage: true}
	command.AddCommand(up(), down(), status(), kubeconfig(), run(), kubectl(), image(), logs(), build())
	command.AddCommand(faults()...)
	command.AddCommand(supervisor(), relayCommand())
	return command
}

// dataFlag names the cluster that a command works on.
func dataFlag(command *cobra.Command) *string {
	return command.Flags().String("data", "", "the cluster's folder (default $DEVCLUSTER_DATA, else one in your cache folder)")
}

// folder makes the data folder's path absolute: it is part of the cluster's identity.
func folder(flag string) (string, error) {
	if flag == "" {
		flag = os.Getenv("DEVCLUSTER_DATA")
	}
	if flag == "" {
		cache, err := bundle.Cache()
		if err != nil {
			return "", err
		}
		flag = filepath.Join(cache, "cluster")
	}
	path, err := filepath.Abs(flag)
	if err != nil {
		return "", fmt.Errorf("find the data folder: %w", err)
	}
	if parent, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(parent, filepath.Base(path))
	}
	return path, nil
}
