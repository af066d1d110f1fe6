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
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
	"github.com/swarm-io/swarm-operator/internal/pool/state"
)

// rollbackRequest is the requested revision, 0 to remove the pin.
type rollbackRequest struct {
	to     int64
	dryRun bool
}

func (s *session) rollbackCommand() *cobra.Command {
	request, undo := rollbackRequest{}, false
	command := &cobra.Command{
		Use: "pool POOL (--to REVISION | --undo)", Aliases: []string{"pools", "workerpool", "wp"},
		Short: "Pin a pool to an earlier revision, or remove the pin",
		Long: `Pin a pool to an earlier revision: its jobs return to the workers that had them, as far as these exist.

The pool keeps that revision, even if its lists of jobs change, until it is pinned to another revision or --undo removes the pin.`,
		Example: `  kubectl swarm rollback pool cameras --to 7 --dry-run
  kubectl swarm rollback pool cameras --to 7
  kubectl swarm rollback pool cameras --undo`,
		Args: onePool, ValidArgsFunction: s.completePools(1),
	}
	flags := command.Flags()
	flags.Int64Var(&request.to, "to", 0, "`revision` to go back to; 0 is --undo")
	flags.BoolVar(&undo, "undo", false, "remove the pin: the current lists of jobs apply again")
	flags.BoolVar(&request.dryRun, "dry-run", false, "show the moves, and change nothing")
	output := s.addOutputFlag(command, formatWide, formatJSON, formatYAML)
	s.registerCompletion(command, "to", s.revisionNumbers)
	command.RunE = func(command *cobra.Command, arguments []string) error {
		switch isSet := command.Flags().Changed("to"); {
		case isSet && undo:
			return usageErrorf(command, "--to and --undo are mutually exclusive")
		case !isSet && !undo:
			return usageErrorf(command, "say where to, --to REVISION or --undo; kubectl swarm history pool %s lists the revisions", arguments[0])
		case request.to < 0:
			return usageErrorf(command, "--to %d is not a revision", request.to)
		}
		return s.rollback(command.Context(), arguments[0], request, output)
	}
	return command
}

func (s *session) rollback(ctx context.Context, name string, request rollbackRequest, output *outputFlag) error {
	at, pool, err := s.openPool(ctx, name)
	if err != nil {
		return err
	}
	history, err := state.History(ctx, at, pool)
	if err != nil {
		return err
	}
	target, err := findRevision(history, pool, request.to)
	if err != nil {
		return err
	}
	result, planErr := s.planRollback(ctx, at, pool, target)
	if request.dryRun {
		if planErr != nil {
			return planErr
		}
		return s.printPlan(result, output)
	}
	if err := at.pin(ctx, pool, request.to); err != nil {
		return err
	}
	if planErr == nil {
		if done, err := output.writeData(s.Out, result); done {
			return err
		}
	}
	s.printRollback(pool, request.to, result, planErr)
	return nil
}

// findRevision returns the kept revision with a number, nil for 0.
func findRevision(history []plan.StoredRevision, pool *v1alpha1.WorkerPool, number int64) (*plan.StoredRevision, error) {
	if number == 0 {
		return nil, nil
	}
	if len(history) == 0 {
		return nil, fmt.Errorf("pool %q has no revisions yet: there is nothing to go back to", pool.Name)
	}
	at := slices.IndexFunc(history, func(k plan.StoredRevision) bool { return k.Number == number })
	if at < 0 {
		numbers := namesOf(history, func(k plan.StoredRevision) string { return strconv.FormatInt(k.Number, 10) })
		return nil, fmt.Errorf("revision %d of pool %q is not kept: choose one of %s", number, pool.Name, strings.Join(numbers, ", "))
	}
	return &history[at], nil
}

// planRollback returns what moves when a revision, or none, is pinned.
func (s *session) planRollback(
	ctx context.Context, at cluster, pool *v1alpha1.WorkerPool, target *plan.StoredRevision,
) (planResult, error) {
	current, err := at.readPoolState(ctx, s, pool)
	switch {
	case err != nil:
		return planResult{}, err
	case target != nil:
		return current.planRollback(*target)
	}
	return current.planChange(noChange)
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

// printRollback prints what has happened. A pin is set even if its consequences are unknown: unreadable lists are a reason to go back.
func (s *session) printRollback(before *v1alpha1.WorkerPool, to int64, result planResult, planErr error) {
	outcome := fmt.Sprintf("workerpool.swarm.io/%s %s", before.Name, describePin(before.Spec.RollbackTo, to))
	if planErr == nil {
		s.newPrinter().line("%s: %s", outcome, result.summary())
		return
	}
	s.newPrinter().line("%s", outcome)
	fmt.Fprintf(s.ErrOut, "Cannot tell what moves: %s\n", oneLine(explain(planErr).Error()))
}

func describePin(before, after int64) string {
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
