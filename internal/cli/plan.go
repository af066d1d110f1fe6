package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// maxReplicas is the maximum of the schema.
const maxReplicas = 10_000

var strategies = []assign.Strategy{assign.Sticky, assign.Contiguous, assign.Hashed}

func (s *session) planCommand() *cobra.Command {
	change, strategy := poolChange{}, ""
	command := &cobra.Command{
		Use: "pool POOL", Aliases: []string{"pools", "workerpool", "wp"},
		Short: "Show which jobs of a pool would move",
		Long: `Show which jobs of a pool would move, without moving them.

The plan is computed by the operator's own engine from the published lists, as if every worker were ready. Nothing is written.
Without flags it shows what the operator is about to do.`,
		Example: `  kubectl swarm plan pool cameras --replicas 3
  kubectl swarm plan pool cameras --add-job stream:lobby --remove-job stream:roof
  kubectl swarm plan pool cameras --strategy contiguous -o json`,
		Args: onePool, ValidArgsFunction: s.completePools(1),
	}
	flags := command.Flags()
	flags.IntVar(&change.replicas, "replicas", 0, "`number` of workers; default: the current replicas of the workload")
	flags.StringArrayVar(&change.add, "add-job", nil, "`job` to add at the end of the list; may be repeated")
	flags.StringArrayVar(&change.remove, "remove-job", nil, "`job` to remove from the list; may be repeated")
	flags.StringVar(&strategy, "strategy", "", "Sticky, Contiguous or Hashed; default: the strategy of the pool")
	output := s.addOutputFlag(command, formatWide, formatJSON, formatYAML)
	s.registerCompletion(command, "strategy", fixedWords(namesOf(strategies, func(s assign.Strategy) string { return string(s) })...))
	s.registerCompletion(command, "remove-job", s.jobNames)
	command.RunE = func(command *cobra.Command, arguments []string) (err error) {
		if change.strategy, err = parseStrategy(command, strategy); err != nil {
			return err
		}
		if change.replicas, err = parseReplicas(command, change.replicas); err != nil {
			return err
		}
		return s.plan(command.Context(), arguments[0], change, output)
	}
	return command
}

// parseReplicas returns the requested number of workers, negative for none.
func parseReplicas(command *cobra.Command, number int) (int, error) {
	switch {
	case !command.Flags().Changed("replicas"):
		return noChange.replicas, nil
	case number < 0 || number > maxReplicas:
		return number, usageErrorf(command, "--replicas %d is not from 0 to %d", number, maxReplicas)
	}
	return number, nil
}

// parseStrategy parses a strategy in any case.
func parseStrategy(command *cobra.Command, text string) (assign.Strategy, error) {
	if !command.Flags().Changed("strategy") {
		return "", nil
	}
	at := slices.IndexFunc(strategies, func(s assign.Strategy) bool { return strings.EqualFold(string(s), text) })
	if at < 0 {
		return "", usageErrorf(command, "--strategy %q is none of Sticky, Contiguous, Hashed", text)
	}
	return strategies[at], nil
}

func (s *session) plan(ctx context.Context, name string, change poolChange, output *outputFlag) error {
	at, pool, err := s.openPool(ctx, name)
	if err != nil {
		return err
	}
	current, err := at.readPoolState(ctx, s, pool)
	if err != nil {
		return err
	}
	result, err := current.planChange(change)
	if err != nil {
		return err
	}
	if pin := pool.Spec.RollbackTo; pin > 0 {
		result.Notes = append(result.Notes,
			fmt.Sprintf("the pool is pinned to revision %d: none of this happens until kubectl swarm rollback pool %s --undo", pin, name))
	}
	return s.printPlan(result, output)
}

// apply returns the list of jobs with the added and without the removed ones.
func (c poolChange) apply(jobs []assign.Job) ([]assign.Job, error) {
	for _, name := range c.remove {
		at := slices.IndexFunc(jobs, func(job assign.Job) bool { return job.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("job %q is not in the list: omit --remove-job %s", name, name)
		}
		jobs = slices.Delete(jobs, at, at+1)
	}
	for _, name := range c.add {
		if slices.ContainsFunc(jobs, func(job assign.Job) bool { return job.Name == name }) {
			return nil, fmt.Errorf("job %q is in the list already: omit --add-job %s", name, name)
		}
		jobs = append(jobs, assign.Job{Name: name, Weight: 1})
	}
	return jobs, nil
}

func nameOfJob(job assign.Job) string { return job.Name }
