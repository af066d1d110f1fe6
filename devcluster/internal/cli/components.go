package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/swarm-io/swarm-operator/devcluster/internal/bundle"
	"github.com/swarm-io/swarm-operator/devcluster/internal/cluster"
	"github.com/swarm-io/swarm-operator/devcluster/internal/relay"
	"github.com/swarm-io/swarm-operator/devcluster/internal/supervise"
)

// faults are the commands that hurt a component on purpose.
func faults() []*cobra.Command {
	return []*cobra.Command{
		fault("pause", "Freeze a component: it keeps its connections but does not answer", (*cluster.Cluster).Pause),
		fault("resume", "Let a frozen component go on", (*cluster.Cluster).Resume),
		fault("kill", "End a component at once; it stays down until it is restarted", (*cluster.Cluster).Kill),
		fault("restart", "End a component, if it runs, and start it again", (*cluster.Cluster).Restart),
	}
}

func fault(verb, short string, inflict func(*cluster.Cluster, string) error) *cobra.Command {
	command := &cobra.Command{Use: verb + " COMPONENT", Short: short, Args: cobra.ExactArgs(1)}
	data := dataFlag(command)
	command.RunE = func(_ *cobra.Command, args []string) error {
		c, err := open(*data)
		if err != nil {
			return err
		}
		return inflict(c, args[0])
	}
	return command
}

func logs() *cobra.Command {
	command := &cobra.Command{Use: "logs COMPONENT", Short: "Print a component's output (audit: the audit log)", Args: cobra.ExactArgs(1)}
	data := dataFlag(command)
	follow := command.Flags().BoolP("follow", "f", false, "go on as the log grows")
	command.RunE = func(command *cobra.Command, args []string) error {
		c, err := open(*data)
		if err != nil {
			return err
		}
		path, err := c.Log(args[0])
		if err != nil {
			return err
		}
		return copyLog(command.Context(), command.OutOrStdout(), path, *follow)
	}
	return command
}

func copyLog(ctx context.Context, out io.Writer, path string, follow bool) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it has not printed anything yet
	}
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer file.Close()
	for {
		if _, err := io.Copy(out, file); err != nil {
			return fmt.Errorf("print the log: %w", err)
		}
		if !follow || ctx.Err() != nil {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func image() *cobra.Command {
	load := &cobra.Command{Use: "load TARBALL...", Short: "Put images onto every real node", Args: cobra.MinimumNArgs(1)}
	data := dataFlag(load)
	load.RunE = func(command *cobra.Command, args []string) error {
		c, err := open(*data)
		if err != nil {
			return err
		}
		for _, archive := range args {
			if err := c.Load(command.Context(), archive); err != nil {
				return err
			}
		}
		return nil
	}
	command := &cobra.Command{Use: "image", Short: "Work with images"}
	command.AddCommand(load)
	return command
}

func build() *cobra.Command {
	command := &cobra.Command{Use: "build", Short: "Build Kubernetes into your cache folder, unless it is there", Args: cobra.NoArgs}
	source := command.Flags().String("source", "devcluster", "folder of the devcluster module")
	command.RunE = func(command *cobra.Command, _ []string) error {
		kubernetes, err := bundle.Locate()
		if err != nil {
			return err
		}
		return kubernetes.Build(command.Context(), *source, command.ErrOrStderr())
	}
	return command
}

// supervisor is what the program runs as behind a cluster.
func supervisor() *cobra.Command {
	command := &cobra.Command{Use: supervise.Command, Hidden: true, Args: cobra.NoArgs}
	data := command.Flags().String("data", "", "the cluster's folder")
	role := command.Flags().String("role", "", "which part of the cluster")
	command.RunE = func(*cobra.Command, []string) error { return supervise.Run(*data, *role) }
	return command
}

func relayCommand() *cobra.Command {
	command := &cobra.Command{Use: "relay", Hidden: true, Args: cobra.NoArgs}
	listen := command.Flags().String("listen", "", "address to listen on")
	to := command.Flags().String("to", "", "address to lead to")
	command.RunE = func(command *cobra.Command, _ []string) error { return relay.Serve(command.Context(), *listen, *to) }
	return command
}
