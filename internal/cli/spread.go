package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

func (s *session) spreadCommand() *cobra.Command {
	everywhere, settings, prices := false, &spreadFlags{}, &prices{}
	command := &cobra.Command{
		Use: "spread [WORKLOAD...]", Short: "List workloads that are split between spot and on-demand nodes: wanted, actual, and why not",
		Long: `List workloads that are split between spot and on-demand nodes: wanted, actual, and why not.

STATUS and WHY are what the operator has written to the workload. The split is counted here.`,
		Example: `  kubectl swarm spread
  kubectl swarm spread -A --prices on-demand=0.192,spot=0.058
  kubectl swarm spread deployment/web -o yaml`,
	}
	flags := command.Flags()
	flags.BoolVarP(&everywhere, "all-namespaces", "A", false, "list the workloads of all namespaces")
	flags.Var(prices, "prices", "`on-demand=N,spot=N`: what a node of each class costs an hour, for an estimate of what spot saves")
	settings.add(flags)
	form := s.formFlag(command, wide, byName, asJSON, asYAML)
	command.RunE = func(command *cobra.Command, names []string) error {
		if everywhere && len(names) > 0 {
			return misused(command, "a workload is named in one namespace: use -n instead of -A")
		}
		chosen, err := settings.settings()
		if err != nil {
			return misused(command, "%w", err)
		}
		return s.spread(command.Context(), names, spreadQuestion{chosen, everywhere, prices}, form)
	}
	return command
}

// spreadQuestion holds the arguments of a query about workloads.
type spreadQuestion struct {
	settings   survey.Settings
	everywhere bool
	prices     *prices
}

// standing is how a workload is spread.
type standing struct {
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

func (s *session) spread(ctx context.Context, names []string, q spreadQuestion, form *form) error {
	at, err := s.open()
	if err != nil {
		return err
	}
	namespace := at.namespace
	if q.everywhere {
		namespace = metav1.NamespaceAll
	}
	found, err := at.scenery(ctx, q.settings, namespace)
	if err != nil {
		return err
	}
	if found.workloads, err = found.chosen(names); err != nil {
		return err
	}
	var standings []standing
	for _, workload := range found.workloads {
		wish := q.settings.Wish(workload)
		if !wish.Managed() {
			continue
		}
		world, err := found.world(ctx, workload, wish, s)
		if err != nil {
			return err
		}
		standings = append(standings, found.standing(workload, wish, spread.Next(world), q.prices))
	}
	return s.showSpread(standings, found, q, form)
}

// chosen returns the named workloads, or all.
func (s *scenery) chosen(names []string) ([]survey.Workload, error) {
	if len(names) == 0 {
		return s.workloads, nil
	}
	var all []survey.Workload
	for _, name := range names {
		workload, err := s.named(name)
		if err != nil {
			return nil, err
		}
		if !s.settings.Wish(workload).Managed() {
			return nil, fmt.Errorf("%s is not spread: annotate it with %s=%s and %s", name, s.settings.Key(v1alpha1.SpreadMode), v1alpha1.SpreadEnabled, s.settings.Key(v1alpha1.SpreadSpotPercentage))
		}
		all = append(all, workload)
	}
	return all, nil
}

func (s *scenery) standing(workload survey.Workload, wish survey.Wish, decision spread.Decision, prices *prices) standing {
	row := standing{
		Namespace: workload.Key.Namespace, Kind: string(workload.Key.Kind), Name: workload.Key.Name, Replicas: workload.Replicas,
		Wanted: decision.Desired.String(), Actual: decision.Current.String(), Status: workload.GetAnnotations()[s.settings.Key(v1alpha1.SpreadStatus)],
	}
	if wish.Policy != nil {
		row.Policy = wish.Policy.String()
	} else {
		row.Wanted = ""
	}
	if row.Why = workload.GetAnnotations()[s.settings.Key(v1alpha1.SpreadReason)]; row.Status == "" {
		row.Why = decision.Reason
	}
	if prices.known() {
		row.Saves = s.savings(s.pods[workload.Key], decision, prices)
	}
	return row
}

func (s *session) showSpread(standings []standing, of *scenery, q spreadQuestion, form *form) error {
	if done, err := form.data(s.Out, standings); done {
		return err
	}
	if len(standings) == 0 {
		s.noSpread(of.namespace, q)
		return nil
	}
	p := s.page()
	if form.chosen == byName {
		for _, row := range standings {
			p.line("%s.apps/%s", strings.ToLower(row.Kind), row.Name)
		}
		return nil
	}
	heads := []string{"WORKLOAD", "REPLICAS", "WANTED", "ACTUAL", "STATUS", "WHY"}
	if q.everywhere {
		heads = append([]string{"NAMESPACE"}, heads...)
	}
	if form.wide() {
		heads = append(heads, "POLICY")
	}
	if q.prices.known() {
		heads = append(heads, "SAVES/MONTH", "COULD SAVE")
	}
	rows := make([][]cell, 0, len(standings))
	for _, row := range standings {
		rows = append(rows, row.cells(q, form.wide()))
	}
	p.table(heads, rows)
	of.notes(p)
	return nil
}

func (r standing) cells(q spreadQuestion, wide bool) []cell {
	word, why, found := strings.Cut(r.Status, ": ")
	if !found {
		why = r.Why
	}
	row := []cell{in(strings.ToLower(r.Kind) + "/" + r.Name), in(r.Replicas), in(r.Wanted), in(r.Actual), {word, toneOfSpread(word)}, in(why)}
	if q.everywhere {
		row = append([]cell{in(r.Namespace)}, row...)
	}
	if wide {
		row = append(row, in(r.Policy))
	}
	if r.Saves != nil {
		row = append(row, in(r.Saves.now()), in(r.Saves.could()))
	}
	return row
}

func toneOfSpread(word string) tone {
	switch word {
	case v1alpha1.SpreadBalanced:
		return good
	case v1alpha1.SpreadInvalid:
		return bad
	case "":
		return plain
	}
	return doubt
}

// notes prints inconsistencies of node labels.
func (s *scenery) notes(p page) {
	odd := map[survey.Oddity]int{}
	for _, node := range s.nodes {
		odd[node.Odd]++
	}
	if n := odd[survey.Unlabelled]; n > 0 {
		p.line("%s without a label of either class: counted as on-demand", count(n, "node"))
	}
	if n := odd[survey.Ambiguous]; n > 0 {
		p.line("%s with labels of both classes: counted as spot", count(n, "node"))
	}
}

func (s *session) noSpread(namespace string, q spreadQuestion) {
	where := fmt.Sprintf("in namespace %q: kubectl swarm spread -A lists those of all namespaces", namespace)
	if q.everywhere {
		where = fmt.Sprintf("in this cluster: annotate one with %s=%s and %s", q.settings.Key(v1alpha1.SpreadMode), v1alpha1.SpreadEnabled, q.settings.Key(v1alpha1.SpreadSpotPercentage))
	}
	fmt.Fprintf(s.ErrOut, "No workload is spread %s.\n", where)
}
