package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func (s *session) jobsCommand() *cobra.Command {
	worker := ""
	command := &cobra.Command{
		Use: "jobs POOL", Short: "Say which worker has which job",
		Long: `Say which worker has which job, as it is published, and whether the worker has acknowledged that.`,
		Example: `  kubectl swarm jobs cameras
  kubectl swarm jobs cameras --worker swarm-worker-0 -o name`,
		Args: onePool, ValidArgsFunction: s.offerPools(1),
	}
	command.Flags().StringVar(&worker, "worker", "", "only the jobs of this `worker`")
	s.offer(command, "worker", s.workerNames)
	form := s.formFlag(command, wide, byName, asJSON, asYAML)
	command.RunE = func(command *cobra.Command, arguments []string) error {
		return s.jobs(command.Context(), arguments[0], worker, form)
	}
	return command
}

// holding is what was published for a worker, and its state.
type holding struct {
	Worker       string                   `json:"worker"`
	Version      int64                    `json:"version"`
	Jobs         []string                 `json:"jobs"`
	State        v1alpha1.WorkerState     `json:"state"`
	Acknowledged v1alpha1.Acknowledgement `json:"acknowledged"`
	revision     int64
}

func (s *session) jobs(ctx context.Context, name, worker string, form *form) error {
	at, pool, err := s.openPool(ctx, name)
	if err != nil {
		return err
	}
	lists, err := at.published(ctx, pool)
	if err != nil {
		return err
	}
	if lists.configs == 0 {
		return fmt.Errorf("pool %q has not published ConfigMap %q yet: kubectl swarm pools %s -o wide says why", name, pool.ConfigName(), name)
	}
	holdings := holdingsOf(pool, lists)
	if worker == "" {
		return s.showJobs(holdings, pool.Status.Unassigned, form)
	}
	holdings = slices.DeleteFunc(holdings, func(h holding) bool { return h.Worker != worker })
	if len(holdings) == 0 {
		return fmt.Errorf("pool %q has no worker %q: leave out --worker to see all", name, worker)
	}
	return s.showJobs(holdings, nil, form)
}

// holdingsOf joins what is published with the status, including workers that only the status has.
func holdingsOf(pool *v1alpha1.WorkerPool, lists published) []holding {
	known := make(map[string]v1alpha1.WorkerStatus, len(pool.Status.Workers))
	for _, status := range pool.Status.Workers {
		known[status.Name] = status
	}
	all := []holding{}
	add := func(worker string, version int64, jobs []string) {
		status := known[worker]
		delete(known, worker)
		all = append(all, holding{worker, version, append([]string{}, jobs...), status.State, status.Acknowledged, status.Revision})
	}
	for _, entry := range lists.entries {
		add(entry.Worker, entry.Version, entry.Jobs)
	}
	for _, status := range pool.Status.Workers {
		if _, left := known[status.Name]; left {
			add(status.Name, 0, nil)
		}
	}
	return all
}

func (s *session) showJobs(holdings []holding, unassigned []string, form *form) error {
	if done, err := form.data(s.Out, holdings); done {
		return err
	}
	p := s.page()
	if form.chosen == byName {
		for _, holding := range holdings {
			for _, job := range holding.Jobs {
				p.line("%s", visible(job))
			}
		}
		return nil
	}
	heads, rows := jobTable(holdings, form.wide())
	p.table(heads, rows)
	if len(unassigned) > 0 {
		p.line("\n%s", p.painted(cell{"Unassigned: " + strings.Join(unassigned, ", "), doubt}))
	}
	return nil
}

// jobTable has one row per job, so that the output can be searched with grep.
func jobTable(holdings []holding, wide bool) (heads []string, rows [][]cell) {
	heads = []string{"WORKER", "STATE", "ACKNOWLEDGED", "VERSION", "JOB"}
	if wide {
		heads = []string{"WORKER", "STATE", "ACKNOWLEDGED", "VERSION", "REVISION", "JOB"}
	}
	for _, h := range holdings {
		jobs := h.Jobs
		if len(jobs) == 0 {
			jobs = []string{none}
		}
		for _, job := range jobs {
			row := []cell{in(h.Worker), {string(h.State), toneOfState(h.State)}, {string(h.Acknowledged), toneOfWord(h.Acknowledged)}, in(h.Version)}
			if wide {
				row = append(row, in(h.revision))
			}
			rows = append(rows, append(row, in(job)))
		}
	}
	return heads, rows
}

func toneOfState(state v1alpha1.WorkerState) tone {
	switch state {
	case v1alpha1.WorkerReady:
		return good
	case v1alpha1.WorkerNotReady:
		return bad
	}
	return doubt
}

func toneOfWord(word v1alpha1.Acknowledgement) tone {
	if word == v1alpha1.AckReceived {
		return good
	}
	return doubt
}
