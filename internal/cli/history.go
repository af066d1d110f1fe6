package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
	"github.com/swarm-io/swarm-operator/internal/pool/state"
)

func (s *session) historyCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "pool POOL", Aliases: []string{"pools", "workerpool", "wp"},
		Short:   "List the stored revisions of a pool",
		Example: "  kubectl swarm history pool cameras",
		Args:    onePool, ValidArgsFunction: s.completePools(1),
	}
	output := s.addOutputFlag(command, formatWide, formatName, formatJSON, formatYAML)
	command.RunE = func(command *cobra.Command, arguments []string) error {
		return s.history(command.Context(), arguments[0], output)
	}
	return command
}

// revisionRow is a kept revision, as printed with -o json or yaml.
type revisionRow struct {
	Revision   int64     `json:"revision"`
	Name       string    `json:"name"`
	Created    time.Time `json:"created"`
	Strategy   string    `json:"strategy"`
	Version    int64     `json:"version"`
	Workers    int       `json:"workers"`
	Jobs       int       `json:"jobs"`
	Unassigned int       `json:"unassigned"`
	Current    bool      `json:"current"`
	Pinned     bool      `json:"pinned"`
}

func (s *session) history(ctx context.Context, name string, output *outputFlag) error {
	at, pool, err := s.openPool(ctx, name)
	if err != nil {
		return err
	}
	history, err := state.History(ctx, at, pool)
	if err != nil {
		return err
	}
	rows := make([]revisionRow, len(history))
	for n, revision := range history {
		rows[n] = newRevisionRow(pool, revision)
	}
	if len(rows) == 0 && output.format == "" {
		fmt.Fprintf(s.ErrOut, "Pool %q has no revisions yet: kubectl swarm pools %s -o wide says why.\n", name, name)
		return nil
	}
	return s.showHistory(rows, output)
}

func newRevisionRow(pool *v1alpha1.WorkerPool, revision plan.StoredRevision) revisionRow {
	data := revision.Data
	return revisionRow{
		Revision: revision.Number, Name: revision.Name, Created: revision.Created, Strategy: data.Strategy, Version: data.Version,
		Workers: len(data.Workers), Jobs: len(data.Jobs()), Unassigned: len(data.Unassigned),
		Current: revision.Number == pool.Status.Revision, Pinned: revision.Number == pool.Spec.RollbackTo,
	}
}

// marks returns the marks of a revision in the table.
func (c revisionRow) marks() cell {
	var marks []string
	if c.Pinned {
		marks = append(marks, "pinned")
	}
	if c.Current {
		marks = append(marks, "current")
	}
	markCell := cell{strings.Join(marks, ", "), green}
	if c.Pinned {
		markCell.color = yellow
	}
	return markCell
}

func (s *session) showHistory(revisions []revisionRow, output *outputFlag) error {
	if done, err := output.writeData(s.Out, revisions); done {
		return err
	}
	p := s.newPrinter()
	if output.format == formatName {
		for _, c := range revisions {
			p.line("controllerrevision.apps/%s", c.Name)
		}
		return nil
	}
	heads := []string{"REVISION", "AGE", "STRATEGY", "WORKERS", "JOBS", "MARK"}
	if output.isWide() {
		heads = append(heads, "VERSION", "UNASSIGNED", "NAME")
	}
	var rows [][]cell
	for _, c := range revisions {
		age := duration.HumanDuration(s.now().Sub(c.Created))
		row := []cell{cellOf(c.Revision), cellOf(age), cellOf(c.Strategy), cellOf(c.Workers), cellOf(c.Jobs), c.marks()}
		if output.isWide() {
			row = append(row, cellOf(c.Version), cellOf(c.Unassigned), cellOf(c.Name))
		}
		rows = append(rows, row)
	}
	p.table(heads, rows)
	return nil
}
