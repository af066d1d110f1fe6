package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/plan"
)

func (s *session) jobsCommand() *cobra.Command {
	worker := ""
	command := &cobra.Command{
		Use: "jobs POOL", Short: "List the jobs of each worker",
		Long: `List the published jobs of each worker, and whether the worker has acknowledged them.`,
		Example: `  kubectl swarm jobs cameras
  kubectl swarm jobs cameras --worker swarm-worker-0 -o name`,
		Args: onePool, ValidArgsFunction: s.completePools(1),
	}
	command.Flags().StringVar(&worker, "worker", "", "only the jobs of this `worker`")
	s.registerCompletion(command, "worker", s.workerNames)
	output := s.addOutputFlag(command, formatWide, formatName, formatJSON, formatYAML)
	command.RunE = func(command *cobra.Command, arguments []string) error {
		return s.jobs(command.Context(), arguments[0], worker, output)
	}
	return command
}

// jobRow is what was published for a worker, and its state.
type jobRow struct {
	Worker       string                   `json:"worker"`
	Version      int64                    `json:"version"`
	Jobs         []string                 `json:"jobs"`
	State        v1alpha1.WorkerState     `json:"state"`
	Acknowledged v1alpha1.Acknowledgement `json:"acknowledged"`
	revision     int64
}

func (s *session) jobs(ctx context.Context, name, worker string, output *outputFlag) error {
	at, pool, err := s.openPool(ctx, name)
	if err != nil {
		return err
	}
	lists, err := at.readPublished(ctx, pool)
	if err != nil {
		return err
	}
	if lists.Missing {
		return fmt.Errorf("pool %q has not published ConfigMap %q yet: kubectl swarm pools %s -o wide says why", name, pool.ConfigName(), name)
	}
	rows := newJobRows(pool, lists)
	if worker == "" {
		return s.showJobs(rows, pool.Status.Unassigned, output)
	}
	rows = slices.DeleteFunc(rows, func(h jobRow) bool { return h.Worker != worker })
	if len(rows) == 0 {
		return fmt.Errorf("pool %q has no worker %q: leave out --worker to see all", name, worker)
	}
	return s.showJobs(rows, nil, output)
}

// newJobRows joins what is published with the status, including workers that only the status has.
func newJobRows(pool *v1alpha1.WorkerPool, lists plan.Published) []jobRow {
	statuses := make(map[string]v1alpha1.WorkerStatus, len(pool.Status.Workers))
	for _, status := range pool.Status.Workers {
		statuses[status.Name] = status
	}
	rows := []jobRow{}
	add := func(worker string, version int64, jobs []string) {
		status := statuses[worker]
		delete(statuses, worker)
		rows = append(rows, jobRow{worker, version, append([]string{}, jobs...), status.State, status.Acknowledged, status.Revision})
	}
	for _, entry := range lists.Entries {
		add(entry.Worker, entry.Version, entry.Jobs)
	}
	for _, status := range pool.Status.Workers {
		if _, remaining := statuses[status.Name]; remaining {
			add(status.Name, 0, nil)
		}
	}
	return rows
}

func (s *session) showJobs(jobRows []jobRow, unassigned []string, output *outputFlag) error {
	if done, err := output.writeData(s.Out, jobRows); done {
		return err
	}
	p := s.newPrinter()
	if output.format == formatName {
		for _, row := range jobRows {
			for _, job := range row.Jobs {
				p.line("%s", visible(job))
			}
		}
		return nil
	}
	heads, rows := jobTable(jobRows, output.isWide())
	p.table(heads, rows)
	if len(unassigned) > 0 {
		p.line("\n%s", p.colorize(cell{"Unassigned: " + strings.Join(unassigned, ", "), yellow}))
	}
	return nil
}

// jobTable has one row per job, so that the output can be searched with grep.
func jobTable(jobRows []jobRow, wide bool) (heads []string, rows [][]cell) {
	heads = []string{"WORKER", "STATE", "ACKNOWLEDGED", "VERSION", "JOB"}
	if wide {
		heads = []string{"WORKER", "STATE", "ACKNOWLEDGED", "VERSION", "REVISION", "JOB"}
	}
	for _, h := range jobRows {
		jobs := h.Jobs
		if len(jobs) == 0 {
			jobs = []string{emptyValue}
		}
		for _, job := range jobs {
			row := []cell{cellOf(h.Worker), {string(h.State), stateColor(h.State)}, {string(h.Acknowledged), acknowledgementColor(h.Acknowledged)},
				cellOf(h.Version)}
			if wide {
				row = append(row, cellOf(h.revision))
			}
			rows = append(rows, append(row, cellOf(job)))
		}
	}
	return heads, rows
}

func stateColor(state v1alpha1.WorkerState) color {
	switch state {
	case v1alpha1.WorkerReady:
		return green
	case v1alpha1.WorkerNotReady:
		return red
	}
	return yellow
}

func acknowledgementColor(ack v1alpha1.Acknowledgement) color {
	if ack == v1alpha1.AckReceived {
		return green
	}
	return yellow
}
