// Package cli is `kubectl swarm`: it shows worker pools and workloads that are split between spot and on-demand nodes, predicts what a
// change would move, and can pin a pool to an earlier revision.
//
// It promises that a plan is computed by the same engine, from the same objects, as the operator's own; that only two commands write to the
// cluster, rollback only spec.rollbackTo and unstick only finalizers; that a failure is one line that names the fix; and that exit codes
// distinguish failure (1) from wrong usage (2). It never waits for anything to happen.
package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// Program is the program, with the clock and the cluster that it uses.
type Program struct {
	genericiooptions.IOStreams

	Build   Build
	Connect func() (client.Client, error) // nil: as the flags and the kubeconfig say
	Now     func() time.Time
}

// Main runs the program and returns the exit code.
func Main(ctx context.Context, arguments []string, build Build, streams genericiooptions.IOStreams) int {
	return Program{IOStreams: streams, Build: build, Now: time.Now}.Run(ctx, arguments)
}

// Run runs the program and returns the exit code.
func (p Program) Run(ctx context.Context, arguments []string) int {
	s := &session{IOStreams: p.IOStreams, flags: genericclioptions.NewConfigFlags(true), build: p.Build, dial: p.Connect, now: p.Now}
	if s.dial == nil {
		s.dial = s.connect
	}
	return s.run(ctx, arguments)
}

// session is one run of the program.
type session struct {
	genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags
	build Build
	dial  func() (client.Client, error)
	now   func() time.Time
}

func (s *session) run(ctx context.Context, arguments []string) int {
	root := s.root()
	root.SetArgs(arguments)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(s.ErrOut, "kubectl swarm: %s\n", oneLine(explain(err).Error()))
	if _, isUsage := errors.AsType[usageError](err); isUsage {
		return exitUsage
	}
	return exitError
}

func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// usageError is a usage error.
type usageError struct{ error }

// usageErrorf returns a usage error that points to the help.
func usageErrorf(command *cobra.Command, format string, arguments ...any) error {
	return usageError{fmt.Errorf(format+": see %s --help", append(arguments, command.CommandPath())...)}
}

const examples = `  # All pools, and why one is not converged
  kubectl swarm pools -A -o wide

  # Which worker has which job
  kubectl swarm jobs cameras --worker swarm-worker-0

  # What would move with a third worker, before there is one
  kubectl swarm plan pool cameras --replicas 3

  # Which workloads are split between spot and on-demand nodes as they should be, and what is in the way
  kubectl swarm spread -A
  kubectl swarm plan spread deployment/web --spot-percentage 80

  # Back to an earlier assignment, and forward again
  kubectl swarm history pool cameras
  kubectl swarm rollback pool cameras --to 7
  kubectl swarm rollback pool cameras --undo

  # Swarms whose deletion waits for an operator that is gone
  kubectl swarm unstick -A --dry-run`

func (s *session) root() *cobra.Command {
	root := group("kubectl-swarm", "Show worker pools and spread workloads, plan their changes, and roll pools back",
		s.poolsCommand(), s.jobsCommand(), s.spreadCommand(),
		group("plan", "Say what would move, before it does", s.planCommand(), s.planSpreadCommand()),
		group("history", "List the revisions that are kept", s.historyCommand()),
		group("rollback", "Go back to an earlier revision", s.rollbackCommand()),
		s.unstickCommand(), s.versionCommand())
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl swarm"}
	root.Long = root.Short + ".\n\nAll connection flags of kubectl work here, too; those below are the usual ones."
	root.Example = examples
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetOut(s.Out)
	root.SetErr(s.ErrOut)
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error { return usageErrorf(command, "%w", err) })
	s.connectionFlags(root)
	return root
}

// group is a command that only has subcommands.
func group(use, short string, subcommands ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{
		Use: use, Short: short,
		Args: func(command *cobra.Command, arguments []string) error {
			if len(arguments) > 0 {
				return usageErrorf(command, "there is no command %q", arguments[0])
			}
			return nil
		},
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(subcommands...)
	return command
}

// onePool requires the name of one pool.
func onePool(command *cobra.Command, arguments []string) error {
	switch len(arguments) {
	case 0:
		return usageErrorf(command, "name a pool")
	case 1:
		return nil
	}
	return usageErrorf(command, "name one pool, not %d", len(arguments))
}
