package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func (s *session) historyCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "pool POOL", Aliases: []string{"pools", "workerpool", "wp"},
		Short:   "List the revisions of a pool that are kept",
		Example: "  kubectl swarm history pool cameras",
		Args:    onePool, ValidArgsFunction: s.offerPools(1),
	}
	form := s.formFlag(command, wide, byName, asJSON, asYAML)
	command.RunE = func(command *cobra.Command, arguments []string) error {
		return s.history(command.Context(), arguments[0], form)
	}
	return command
}

// chapter is a kept revision, as printed with -o json or yaml.
type chapter struct {
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

func (s *session) history(ctx context.Context, name string, form *form) error {
	at, pool, err := s.openPool(ctx, name)
	if err != nil {
		return err
	}
	history, err := at.history(ctx, pool)
	if err != nil {
		return err
	}
	chapters := make([]chapter, len(history))
	for n, revision := range history {
		chapters[n] = chapterOf(pool, revision)
	}
	if len(chapters) == 0 && form.chosen == "" {
		fmt.Fprintf(s.ErrOut, "Pool %q has no revisions yet: kubectl swarm pools %s -o wide says why.\n", name, name)
		return nil
	}
	return s.showHistory(chapters, form)
}

func chapterOf(pool *v1alpha1.WorkerPool, revision kept) chapter {
	data := revision.data
	return chapter{
		Revision: revision.number, Name: revision.name, Created: revision.created, Strategy: data.Strategy, Version: data.Version,
		Workers: len(data.Workers), Jobs: len(data.Jobs()), Unassigned: len(data.Unassigned),
		Current: revision.number == pool.Status.Revision, Pinned: revision.number == pool.Spec.RollbackTo,
	}
}

// mark returns the marks of a revision in the table.
func (c chapter) mark() cell {
	var marks []string
	if c.Pinned {
		marks = append(marks, "pinned")
	}
	if c.Current {
		marks = append(marks, "current")
	}
	shown := cell{strings.Join(marks, ", "), good}
	if c.Pinned {
		shown.tone = doubt
	}
	return shown
}

func (s *session) showHistory(chapters []chapter, form *form) error {
	if done, err := form.data(s.Out, chapters); done {
		return err
	}
	p := s.page()
	if form.chosen == byName {
		for _, c := range chapters {
			p.line("controllerrevision.apps/%s", c.Name)
		}
		return nil
	}
	heads := []string{"REVISION", "AGE", "STRATEGY", "WORKERS", "JOBS", "MARK"}
	if form.wide() {
		heads = append(heads, "VERSION", "UNASSIGNED", "NAME")
	}
	var rows [][]cell
	for _, c := range chapters {
		age := duration.HumanDuration(s.now().Sub(c.Created))
		row := []cell{in(c.Revision), in(age), in(c.Strategy), in(c.Workers), in(c.Jobs), c.mark()}
		if form.wide() {
			row = append(row, in(c.Version), in(c.Unassigned), in(c.Name))
		}
		rows = append(rows, row)
	}
	p.table(heads, rows)
	return nil
}
