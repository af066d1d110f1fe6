package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// rollback is the requested revision, 0 to go forward again.
type rollback struct {
	to     int64
	dryRun bool
}

func (s *session) rollbackCommand() *cobra.Command {
	asked, undo := rollback{}, false
	command := &cobra.Command{
		Use: "pool POOL (--to REVISION | --undo)", Aliases: []string{"pools", "workerpool", "wp"},
		Short: "Pin a pool to an earlier revision, or let it go on",
		Long: `Pin a pool to an earlier revision: its jobs, on the workers that had them, as far as these are there.

The pool stays there, whatever becomes of its lists, until it is pinned to another revision or --undo lets it go on.`,
		Example: `  kubectl swarm rollback pool cameras --to 7 --dry-run
  kubectl swarm rollback pool cameras --to 7
  kubectl swarm rollback pool cameras --undo`,
		Args: onePool, ValidArgsFunction: s.offerPools(1),
	}
	flags := command.Flags()
	flags.Int64Var(&asked.to, "to", 0, "`revision` to go back to; 0 is --undo")
	flags.BoolVar(&undo, "undo", false, "remove the pin: the newest lists count again")
	flags.BoolVar(&asked.dryRun, "dry-run", false, "show the moves, and change nothing")
	form := s.formFlag(command, wide, asJSON, asYAML)
	s.offer(command, "to", s.revisionNumbers)
	command.RunE = func(command *cobra.Command, arguments []string) error {
		switch to := command.Flags().Changed("to"); {
		case to && undo:
			return misused(command, "--to and --undo exclude each other")
		case !to && !undo:
			return misused(command, "say where to, --to REVISION or --undo; kubectl swarm history pool %s lists the revisions", arguments[0])
		case asked.to < 0:
			return misused(command, "--to %d is not a revision", asked.to)
		}
		return s.rollback(command.Context(), arguments[0], asked, form)
	}
	return command
}

func (s *session) rollback(ctx context.Context, name string, asked rollback, form *form) error {
	at, pool, err := s.openPool(ctx, name)
	if err != nil {
		return err
	}
	history, err := at.history(ctx, pool)
	if err != nil {
		return err
	}
	target, err := find(history, pool, asked.to)
	if err != nil {
		return err
	}
	made, unknown := at.consequences(ctx, pool, target)
	if asked.dryRun {
		if unknown != nil {
			return unknown
		}
		return s.foretell(made, form)
	}
	if err := at.pin(ctx, pool, asked.to); err != nil {
		return err
	}
	if unknown == nil {
		if done, err := form.data(s.Out, made); done {
			return err
		}
	}
	s.told(pool, asked.to, made, unknown)
	return nil
}

// find returns the kept revision with a number, nil for 0.
func find(history []kept, pool *v1alpha1.WorkerPool, number int64) (*kept, error) {
	if number == 0 {
		return nil, nil
	}
	if len(history) == 0 {
		return nil, fmt.Errorf("pool %q has no revisions yet: there is nothing to go back to", pool.Name)
	}
	at := slices.IndexFunc(history, func(k kept) bool { return k.number == number })
	if at < 0 {
		numbers := namesOf(history, func(k kept) string { return strconv.FormatInt(k.number, 10) })
		return nil, fmt.Errorf("revision %d of pool %q is not kept: choose one of %s", number, pool.Name, strings.Join(numbers, ", "))
	}
	return &history[at], nil
}

// consequences returns what moves when a revision, or none, is pinned.
func (c cluster) consequences(ctx context.Context, pool *v1alpha1.WorkerPool, target *kept) (forecast, error) {
	now, err := c.situation(ctx, pool)
	if err != nil {
		return forecast{}, err
	}
	if target != nil {
		return now.back(*target)
	}
	jobs, err := c.jobs(ctx, pool)
	if err != nil {
		return forecast{}, err
	}
	return now.ahead(asItIs, jobs)
}

// pin writes only spec.rollbackTo.
func (c cluster) pin(ctx context.Context, pool *v1alpha1.WorkerPool, number int64) error {
	value := "null"
	if number > 0 {
		value = strconv.FormatInt(number, 10)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"rollbackTo":`+value+`}}`))
	if err := c.Patch(ctx, pool.DeepCopy(), patch, client.FieldOwner("kubectl-swarm")); err != nil {
		return fmt.Errorf("pin pool %q: %w", pool.Name, err)
	}
	return nil
}

// told prints what has happened. A pin is set even if its consequences are unknown: unreadable lists are a reason to go back.
func (s *session) told(before *v1alpha1.WorkerPool, to int64, made forecast, unknown error) {
	said := fmt.Sprintf("workerpool.swarm.io/%s %s", before.Name, pinning(before.Spec.RollbackTo, to))
	if unknown == nil {
		s.page().line("%s: %s", said, made.summary())
		return
	}
	s.page().line("%s", said)
	fmt.Fprintf(s.ErrOut, "What moves is not known: %s\n", oneLine(explained(unknown).Error()))
}

func pinning(before, after int64) string {
	switch {
	case after > 0 && before == after:
		return fmt.Sprintf("stays pinned to revision %d", after)
	case after > 0:
		return fmt.Sprintf("pinned to revision %d", after)
	case before > 0:
		return fmt.Sprintf("no longer pinned to revision %d", before)
	}
	return "was not pinned"
}
