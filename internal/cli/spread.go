package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	spreadplan "github.com/swarm-io/swarm-operator/internal/spread/plan"
	spreadsnapshot "github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
)

func (s *session) spreadCommand() *cobra.Command {
	allNamespaces, settings, prices := false, &spreadFlags{}, &prices{}
	command := &cobra.Command{
		Use: "spread [WORKLOAD...]", Short: "List workloads that are split between spot and on-demand nodes: wanted, actual, and problems",
		Long: `List workloads that are split between spot and on-demand nodes: wanted, actual, and problems.

STATUS and WHY are what the operator has written to the workload. The split is counted here.`,
		Example: `  kubectl swarm spread
  kubectl swarm spread -A --prices on-demand=0.192,spot=0.058
  kubectl swarm spread deployment/web -o yaml`,
	}
	flags := command.Flags()
	flags.BoolVarP(&allNamespaces, "all-namespaces", "A", false, "list the workloads of all namespaces")
	flags.Var(prices, "prices", "`on-demand=N,spot=N`: what a node of each class costs an hour, for an estimate of what spot saves")
	settings.add(flags)
	output := s.addOutputFlag(command, formatWide, formatName, formatJSON, formatYAML)
	command.RunE = func(command *cobra.Command, names []string) error {
		if allNamespaces && len(names) > 0 {
			return usageErrorf(command, "a workload is named in one namespace: use -n instead of -A")
		}
		spreadSettings, err := settings.settings()
		if err != nil {
			return usageErrorf(command, "%w", err)
		}
		return s.spread(command.Context(), names, spreadQuery{spreadSettings, allNamespaces, prices}, output)
	}
	return command
}

// spreadQuery holds the arguments of a query about workloads.
type spreadQuery struct {
	settings      spreadsnapshot.Settings
	allNamespaces bool
	prices        *prices
}

// spreadRow is how a workload is spread.
type spreadRow struct {
	Namespace string  `json:"namespace"`
	Kind      string  `json:"kind"`
	Name      string  `json:"name"`
	Replicas  int     `json:"replicas"`
	Policy    string  `json:"policy,omitempty"`
	Wanted    string  `json:"wanted"`
	Actual    string  `json:"actual"`
	Status    string  `json:"status"`
	Why       string  `json:"why,omitempty"`
	Saves     *saving `json:"savesPerMonth,omitempty"`
}

func (s *session) spread(ctx context.Context, names []string, q spreadQuery, output *outputFlag) error {
	at, err := s.open()
	if err != nil {
		return err
	}
	namespace := at.namespace
	if q.allNamespaces {
		namespace = metav1.NamespaceAll
	}
	state, err := at.readState(ctx, q.settings, namespace, s.now())
	if err != nil {
		return err
	}
	if state.workloads, err = state.selectWorkloads(names); err != nil {
		return err
	}
	var rows []spreadRow
	for _, workload := range state.workloads {
		policy := q.settings.Spec(workload)
		if !policy.Managed() {
			continue
		}
		input, err := state.planInput(ctx, workload, policy, s.now())
		if err != nil {
			return err
		}
		rows = append(rows, state.newSpreadRow(workload, policy, spreadplan.New(input, s.now()).Decision, q.prices))
	}
	return s.showSpread(rows, state, q, output)
}

// selectWorkloads returns the named workloads, or all.
func (s *clusterState) selectWorkloads(names []string) ([]workloads.Workload, error) {
	if len(names) == 0 {
		return s.workloads, nil
	}
	var selected []workloads.Workload
	for _, name := range names {
		workload, err := s.findWorkload(name)
		if err != nil {
			return nil, err
		}
		if !s.settings.Spec(workload).Managed() {
			return nil, fmt.Errorf("%s is not spread: annotate it with %s=%s and %s", name, s.settings.Key(v1alpha1.SpreadMode),
				v1alpha1.SpreadEnabled, s.settings.Key(v1alpha1.SpreadSpotPercentage))
		}
		selected = append(selected, workload)
	}
	return selected, nil
}

func (s *clusterState) newSpreadRow(workload workloads.Workload, policy spreadsnapshot.Spec, decision split.Decision,
	prices *prices) spreadRow {
	row := spreadRow{
		Namespace: workload.Key.Namespace, Kind: string(workload.Key.Kind), Name: workload.Key.Name, Replicas: workload.Replicas,
		Wanted: decision.Desired.String(), Actual: decision.Current.String(),
		Status: workload.GetAnnotations()[s.settings.Key(v1alpha1.SpreadStatus)],
	}
	if policy.Policy != nil {
		row.Policy = policy.Policy.String()
	} else {
		row.Wanted = ""
	}
	if row.Why = workload.GetAnnotations()[s.settings.Key(v1alpha1.SpreadReason)]; row.Status == "" {
		row.Why = decision.Reason
	}
	if prices.isSet() {
		row.Saves = s.savings(s.pods[workload.Key], decision, prices)
	}
	return row
}

func (s *session) showSpread(spreadRows []spreadRow, state *clusterState, q spreadQuery, output *outputFlag) error {
	if done, err := output.writeData(s.Out, spreadRows); done {
		return err
	}
	if len(spreadRows) == 0 {
		s.printNoSpread(state.namespace, q)
		return nil
	}
	p := s.newPrinter()
	if output.format == formatName {
		for _, row := range spreadRows {
			p.line("%s.apps/%s", strings.ToLower(row.Kind), row.Name)
		}
		return nil
	}
	heads := []string{"WORKLOAD", "REPLICAS", "WANTED", "ACTUAL", "STATUS", "WHY"}
	if q.allNamespaces {
		heads = append([]string{"NAMESPACE"}, heads...)
	}
	if output.isWide() {
		heads = append(heads, "POLICY")
	}
	if q.prices.isSet() {
		heads = append(heads, "SAVES/MONTH", "COULD SAVE")
	}
	rows := make([][]cell, 0, len(spreadRows))
	for _, row := range spreadRows {
		rows = append(rows, row.cells(q, output.isWide()))
	}
	p.table(heads, rows)
	state.printLabelProblems(p)
	return nil
}

func (r spreadRow) cells(q spreadQuery, wide bool) []cell {
	status, reason, ok := strings.Cut(r.Status, ": ")
	if !ok {
		reason = r.Why
	}
	row := []cell{cellOf(strings.ToLower(r.Kind) + "/" + r.Name), cellOf(r.Replicas), cellOf(r.Wanted), cellOf(r.Actual),
		{status, spreadColor(status)}, cellOf(reason)}
	if q.allNamespaces {
		row = append([]cell{cellOf(r.Namespace)}, row...)
	}
	if wide {
		row = append(row, cellOf(r.Policy))
	}
	if r.Saves != nil {
		row = append(row, cellOf(r.Saves.formatNow()), cellOf(r.Saves.formatCould()))
	}
	return row
}

func spreadColor(status string) color {
	switch status {
	case v1alpha1.SpreadBalanced:
		return green
	case v1alpha1.SpreadInvalid:
		return red
	case "":
		return noColor
	}
	return yellow
}

// printLabelProblems prints inconsistencies of node labels.
func (s *clusterState) printLabelProblems(out printer) {
	problems := map[spreadsnapshot.LabelProblem]int{}
	for _, node := range s.nodes.ByName {
		problems[node.LabelProblem]++
	}
	if n := problems[spreadsnapshot.Unlabelled]; n > 0 {
		out.line("%s without a label of either class: counted as on-demand", count(n, "node"))
	}
	if n := problems[spreadsnapshot.Ambiguous]; n > 0 {
		out.line("%s with labels of both classes: counted as spot", count(n, "node"))
	}
}

func (s *session) printNoSpread(namespace string, q spreadQuery) {
	where := fmt.Sprintf("in namespace %q: kubectl swarm spread -A lists those of all namespaces", namespace)
	if q.allNamespaces {
		where = fmt.Sprintf("in this cluster: annotate one with %s=%s and %s", q.settings.Key(v1alpha1.SpreadMode), v1alpha1.SpreadEnabled,
			q.settings.Key(v1alpha1.SpreadSpotPercentage))
	}
	fmt.Fprintf(s.ErrOut, "No workload is spread %s.\n", where)
}
