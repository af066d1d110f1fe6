package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/swarm-io/swarm-operator/devcluster/internal/bundle"
	"github.com/swarm-io/swarm-operator/devcluster/internal/cluster"
)

func run() *cobra.Command {
	command := &cobra.Command{
		Use: "run [flags] -- COMMAND [ARGUMENT...]", Short: "Bring up a cluster for the length of a command", Args: cobra.MinimumNArgs(1),
		Long: `Bring up a cluster in a new folder, run the command with KUBECONFIG and DEVCLUSTER_DATA set and kubectl on its PATH, and take
the cluster away again, however the command ends. The exit code is the command's.`,
		Example: "  devcluster run --simulated-nodes 5 -- kubectl get nodes",
	}
	options := optionFlags(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		parent, err := os.MkdirTemp("", "devcluster-")
		if err != nil {
			return fmt.Errorf("make a folder for the cluster: %w", err)
		}
		defer os.RemoveAll(parent)
		data, err := folder(filepath.Join(parent, "cluster"))
		if err != nil {
			return err
		}
		if _, err := bringUp(command.Context(), data, *options, command.ErrOrStderr()); err != nil {
			return err
		}
		result := within(command.Context(), data, args)
		if err := cluster.Down(data); err != nil {
			return errors.Join(result, err)
		}
		return result
	}
	return command
}

// within runs a command against the cluster in data; when this program is interrupted the command is, too, and has time to end.
func within(ctx context.Context, data string, args []string) error {
	command, err := against(ctx, data, args[0], args[1:]...)
	if err != nil {
		return err
	}
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = time.Minute
	return ended(command.Run())
}

// kubectlFor prepares kubectl for our cluster, unless the arguments name another.
func kubectlFor(ctx context.Context, args []string) (*exec.Cmd, error) {
	if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--kubeconfig=") }) {
		return tool(ctx, "kubectl", args...)
	}
	data, err := folder("")
	if err != nil {
		return nil, err
	}
	return against(ctx, data, "kubectl", args...)
}

// against prepares a command with the environment by which it finds the cluster.
func against(ctx context.Context, data, name string, args ...string) (*exec.Cmd, error) {
	c, err := cluster.Open(data)
	if err != nil {
		return nil, err
	}
	command, err := tool(ctx, name, args...)
	if err != nil {
		return nil, err
	}
	command.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "DEVCLUSTER_DATA="+data)
	return command, nil
}

// tool prepares a command that finds our kubectl on its PATH.
func tool(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	kubernetes, err := bundle.Locate()
	if err != nil {
		return nil, err
	}
	if err := os.Setenv("PATH", kubernetes.Tools()+":"+os.Getenv("PATH")); err != nil {
		return nil, fmt.Errorf("set PATH: %w", err)
	}
	command := exec.CommandContext(ctx, name, args...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	return command, nil
}

// ended turns the end of a command into this program's own.
func ended(err error) error {
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := failed.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return exit(128 + int(status.Signal()))
		}
		return exit(failed.ExitCode())
	}
	return err
}

func kubectl() *cobra.Command {
	return &cobra.Command{
		Use: "kubectl [ARGUMENT...]", DisableFlagParsing: true,
		Short: "Run kubectl against the cluster ($DEVCLUSTER_DATA or the default one), or any other with --kubeconfig=FILE",
		RunE: func(command *cobra.Command, args []string) error {
			kubectl, err := kubectlFor(command.Context(), args)
			if err != nil {
				return err
			}
			return ended(kubectl.Run())
		},
	}
}
