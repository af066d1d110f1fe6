package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/swarm-io/swarm-operator/devcluster/internal/cluster"
)

func optionFlags(command *cobra.Command) *cluster.Options {
	options := &cluster.Options{}
	flags := command.Flags()
	flags.IntVar(&options.RealNodes, "real-nodes", 0, "nodes that run containers (needs root)")
	flags.IntVar(&options.SimulatedNodes, "simulated-nodes", 0,
		"nodes whose pods only seem to run; beside real nodes they are tainted kwok.x-k8s.io/node=fake:NoSchedule")
	flags.IntVar(&options.APIServers, "apiservers", 1,
		"API servers, 1 or 2; the second is context devcluster-2 and reaches etcd by the component etcd-link, which can be paused")
	flags.IntVar(&options.Port, "port", 0, "port of the API server on the loopback (default: a free one)")
	flags.BoolVar(&options.Audit, "audit", false, "log who requested what: `devcluster logs audit`")
	flags.BoolVar(&options.Fsync, "fsync", false, "have etcd write through to the disk, as in production (slower)")
	return options
}

func up() *cobra.Command {
	command := &cobra.Command{Use: "up", Short: "Bring up a cluster", Args: cobra.NoArgs}
	data, options := dataFlag(command), optionFlags(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		path, err := folder(*data)
		if err != nil {
			return err
		}
		c, err := bringUp(command.Context(), path, *options, command.ErrOrStderr())
		if err != nil {
			return err
		}
		fmt.Fprintf(command.OutOrStdout(), "\nexport KUBECONFIG=%s\n", quoted(c.Kubeconfig()))
		return nil
	}
	return command
}

// quoted makes a path fit to be pasted into a shell.
func quoted(path string) string {
	if strings.ContainsAny(path, " '&;()") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

// bringUp makes a cluster, or leaves nothing behind.
func bringUp(ctx context.Context, data string, options cluster.Options, out io.Writer) (*cluster.Cluster, error) {
	fmt.Fprintln(out, "A cluster for development and tests. NOT for production.")
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	c, err := cluster.Up(ctx, data, options, say)
	if err == nil || c == nil {
		return c, err
	}
	if cleanup := cluster.Down(data); cleanup != nil {
		return nil, fmt.Errorf("%w\nand then, while cleaning up: %w", err, cleanup)
	}
	return nil, err
}

func down() *cobra.Command {
	command := &cobra.Command{Use: "down", Short: "End a cluster and remove every trace of it", Args: cobra.NoArgs}
	data := dataFlag(command)
	command.RunE = func(*cobra.Command, []string) error {
		path, err := folder(*data)
		if err != nil {
			return err
		}
		return cluster.Down(path)
	}
	return command
}

// open finds the cluster that a command works on.
func open(data string) (*cluster.Cluster, error) {
	path, err := folder(data)
	if err != nil {
		return nil, err
	}
	c, err := cluster.Open(path)
	if err == nil && !c.Described() {
		return nil,
			fmt.Errorf("the cluster in %s is only just being brought up: wait for `devcluster up`, or run `devcluster down` if that was killed",
				path)
	}
	return c, err
}

func kubeconfig() *cobra.Command {
	command := &cobra.Command{Use: "kubeconfig", Short: "Print the cluster's kubeconfig", Args: cobra.NoArgs}
	data := dataFlag(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		c, err := open(*data)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(c.Kubeconfig())
		if errors.Is(err, os.ErrNotExist) {
			return errors.New("the cluster is not up yet: wait for `devcluster up`")
		}
		if err != nil {
			return fmt.Errorf("read the kubeconfig: %w", err)
		}
		_, err = command.OutOrStdout().Write(text)
		return err
	}
	return command
}
