package cli

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func (s *session) poolsCommand() *cobra.Command {
	allNamespaces := false
	command := &cobra.Command{
		Use: "pools [NAME...]", Aliases: []string{"pool"}, Short: "List worker pools: their size, progress and problems",
		Example: `  kubectl swarm pools
  kubectl swarm pools -A -o wide
  kubectl swarm pools cameras -o yaml`,
		ValidArgsFunction: s.completePools(math.MaxInt),
	}
	command.Flags().BoolVarP(&allNamespaces, "all-namespaces", "A", false, "list the pools of all namespaces")
	output := s.addOutputFlag(command, formatWide, formatName, formatJSON, formatYAML)
	command.RunE = func(command *cobra.Command, names []string) error {
		if allNamespaces && len(names) > 0 {
			return usageErrorf(command, "a pool is named in one namespace: use -n instead of -A")
		}
		return s.pools(command.Context(), names, allNamespaces, output)
	}
	return command
}

func (s *session) pools(ctx context.Context, names []string, allNamespaces bool, output *outputFlag) error {
	at, err := s.open()
	if err != nil {
		return err
	}
	pools, missing := at.readPools(ctx, names, allNamespaces)
	if missing != nil && len(pools) == 0 {
		return missing
	}
	if len(pools) == 0 && output.format == "" {
		s.printNoPools(at.namespace, allNamespaces)
		return nil
	}
	if err := s.showPools(pools, allNamespaces, len(names) == 1, output); err != nil {
		return err
	}
	return missing
}

// readPools returns all pools of a namespace, or of all namespaces, or those with the given names. The error names the missing ones.
func (c cluster) readPools(ctx context.Context, names []string, allNamespaces bool) ([]v1alpha1.WorkerPool, error) {
	if len(names) == 0 {
		namespace := c.namespace
		if allNamespaces {
			namespace = metav1.NamespaceAll
		}
		list := &v1alpha1.WorkerPoolList{}
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("list pools: %w", err)
		}
		return list.Items, nil
	}
	var found []v1alpha1.WorkerPool
	var missing []error
	for _, name := range names {
		pool, err := c.readPool(ctx, name)
		if err != nil {
			missing = append(missing, err)
			continue
		}
		found = append(found, *pool)
	}
	return found, errors.Join(missing...)
}

func (s *session) printNoPools(namespace string, allNamespaces bool) {
	if allNamespaces {
		fmt.Fprintln(s.ErrOut, "There are no pools: kubectl explain workerpool says how to make one.")
		return
	}
	fmt.Fprintf(s.ErrOut, "There are no pools in namespace %q: kubectl swarm pools -A lists those of all namespaces.\n", namespace)
}

func (s *session) showPools(pools []v1alpha1.WorkerPool, allNamespaces, single bool, output *outputFlag) error {
	for n := range pools {
		pools[n].SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("WorkerPool"))
		pools[n].ManagedFields = nil
	}
	var value any = map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""}, "items": pools}
	if single {
		value = &pools[0]
	}
	if done, err := output.writeData(s.Out, value); done {
		return err
	}
	p := s.newPrinter()
	if output.format == formatName {
		for _, pool := range pools {
			p.line("workerpool.swarm.io/%s", pool.Name)
		}
		return nil
	}
	heads, rows := poolTable(pools, allNamespaces, output.isWide())
	p.table(heads, rows)
	return nil
}

func poolTable(pools []v1alpha1.WorkerPool, allNamespaces, wide bool) (heads []string, rows [][]cell) {
	heads = []string{"NAME", "WORKLOAD", "SIZE", "JOBS", "VERSION", "CONVERGED", "REASON"}
	if allNamespaces {
		heads = append([]string{"NAMESPACE"}, heads...)
	}
	if wide {
		heads = append(heads, "REVISION", "MESSAGE")
	}
	for _, pool := range pools {
		rows = append(rows, poolRow(pool, allNamespaces, wide))
	}
	return heads, rows
}

func poolRow(pool v1alpha1.WorkerPool, allNamespaces, wide bool) []cell {
	status, condition := pool.Status, mainCondition(pool.Status.Conditions)
	var row []cell
	if allNamespaces {
		row = append(row, cellOf(pool.Namespace))
	}
	row = append(row, cellOf(pool.Name), cellOf(fmt.Sprintf("%s/%s", pool.Spec.Workers.Kind, pool.Spec.Workers.Name)),
		cellOf(fmt.Sprintf("%d/%d", status.Size, status.ExpectedSize)),
		cellOf(status.Jobs), cellOf(status.Version), convergedCell(status.Conditions), cell{condition.Reason, conditionColor(condition)})
	if wide {
		row = append(row, cellOf(fmt.Sprintf("%d/%d", status.Revision, status.ConvergedRevision)), cellOf(condition.Message))
	}
	return row
}

func convergedCell(conditions []metav1.Condition) cell {
	condition := meta.FindStatusCondition(conditions, v1alpha1.ConditionConverged)
	switch {
	case condition == nil:
		return cellOf(emptyValue)
	case condition.Status == metav1.ConditionTrue:
		return cell{string(condition.Status), green}
	}
	return cell{string(condition.Status), yellow}
}

// mainCondition returns the condition that explains a problem, or else Ready.
func mainCondition(conditions []metav1.Condition) metav1.Condition {
	for _, problem := range []struct {
		kind   string
		status metav1.ConditionStatus
	}{
		{v1alpha1.ConditionReady, metav1.ConditionFalse}, {v1alpha1.ConditionDegraded, metav1.ConditionTrue},
		{v1alpha1.ConditionConverged, metav1.ConditionFalse},
	} {
		if meta.IsStatusConditionPresentAndEqual(conditions, problem.kind, problem.status) {
			return *meta.FindStatusCondition(conditions, problem.kind)
		}
	}
	if ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); ready != nil {
		return *ready
	}
	return metav1.Condition{}
}

func conditionColor(condition metav1.Condition) color {
	switch {
	case condition.Type == v1alpha1.ConditionConverged:
		return yellow
	case condition.Type == v1alpha1.ConditionReady && condition.Status == metav1.ConditionTrue, condition.Type == "":
		return noColor
	}
	return red
}
