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
	everywhere := false
	command := &cobra.Command{
		Use: "pools [NAME...]", Aliases: []string{"pool"}, Short: "List worker pools: how large, how far, and why not",
		Example: `  kubectl swarm pools
  kubectl swarm pools -A -o wide
  kubectl swarm pools cameras -o yaml`,
		ValidArgsFunction: s.offerPools(math.MaxInt),
	}
	command.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "list the pools of all namespaces")
	form := s.formFlag(command, wide, byName, asJSON, asYAML)
	command.RunE = func(command *cobra.Command, names []string) error {
		if everywhere && len(names) > 0 {
			return misused(command, "a pool is named in one namespace: use -n instead of -A")
		}
		return s.pools(command.Context(), names, everywhere, form)
	}
	return command
}

func (s *session) pools(ctx context.Context, names []string, everywhere bool, form *form) error {
	at, err := s.open()
	if err != nil {
		return err
	}
	pools, missing := at.pools(ctx, names, everywhere)
	if missing != nil && len(pools) == 0 {
		return missing
	}
	if len(pools) == 0 && form.chosen == "" {
		s.noPools(at.namespace, everywhere)
		return nil
	}
	if err := s.showPools(pools, everywhere, len(names) == 1, form); err != nil {
		return err
	}
	return missing
}

// pools returns all pools of a namespace, or of all namespaces, or those with the given names. The error names the missing ones.
func (c cluster) pools(ctx context.Context, names []string, everywhere bool) ([]v1alpha1.WorkerPool, error) {
	if len(names) == 0 {
		in := c.namespace
		if everywhere {
			in = metav1.NamespaceAll
		}
		list := &v1alpha1.WorkerPoolList{}
		if err := c.List(ctx, list, client.InNamespace(in)); err != nil {
			return nil, fmt.Errorf("list pools: %w", err)
		}
		return list.Items, nil
	}
	var found []v1alpha1.WorkerPool
	var missing []error
	for _, name := range names {
		pool, err := c.pool(ctx, name)
		if err != nil {
			missing = append(missing, err)
			continue
		}
		found = append(found, *pool)
	}
	return found, errors.Join(missing...)
}

func (s *session) noPools(namespace string, everywhere bool) {
	if everywhere {
		fmt.Fprintln(s.ErrOut, "There are no pools: kubectl explain workerpool says how to make one.")
		return
	}
	fmt.Fprintf(s.ErrOut, "There are no pools in namespace %q: kubectl swarm pools -A lists those of all namespaces.\n", namespace)
}

func (s *session) showPools(pools []v1alpha1.WorkerPool, everywhere, one bool, form *form) error {
	for n := range pools {
		pools[n].SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("WorkerPool"))
		pools[n].ManagedFields = nil
	}
	var value any = map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""}, "items": pools}
	if one {
		value = &pools[0]
	}
	if done, err := form.data(s.Out, value); done {
		return err
	}
	p := s.page()
	if form.chosen == byName {
		for _, pool := range pools {
			p.line("workerpool.swarm.io/%s", pool.Name)
		}
		return nil
	}
	heads, rows := poolTable(pools, everywhere, form.wide())
	p.table(heads, rows)
	return nil
}

func poolTable(pools []v1alpha1.WorkerPool, everywhere, wide bool) (heads []string, rows [][]cell) {
	heads = []string{"NAME", "WORKLOAD", "SIZE", "JOBS", "VERSION", "CONVERGED", "REASON"}
	if everywhere {
		heads = append([]string{"NAMESPACE"}, heads...)
	}
	if wide {
		heads = append(heads, "REVISION", "MESSAGE")
	}
	for _, pool := range pools {
		rows = append(rows, poolRow(pool, everywhere, wide))
	}
	return heads, rows
}

func poolRow(pool v1alpha1.WorkerPool, everywhere, wide bool) []cell {
	status, telling := pool.Status, tellingCondition(pool.Status.Conditions)
	var row []cell
	if everywhere {
		row = append(row, in(pool.Namespace))
	}
	row = append(row, in(pool.Name), in(fmt.Sprintf("%s/%s", pool.Spec.Workers.Kind, pool.Spec.Workers.Name)), in(fmt.Sprintf("%d/%d", status.Size, status.ExpectedSize)),
		in(status.Jobs), in(status.Version), converged(status.Conditions), cell{telling.Reason, toneOf(telling)})
	if wide {
		row = append(row, in(fmt.Sprintf("%d/%d", status.Revision, status.ConvergedRevision)), in(telling.Message))
	}
	return row
}

func converged(conditions []metav1.Condition) cell {
	found := meta.FindStatusCondition(conditions, v1alpha1.ConditionConverged)
	switch {
	case found == nil:
		return in(none)
	case found.Status == metav1.ConditionTrue:
		return cell{string(found.Status), good}
	}
	return cell{string(found.Status), doubt}
}

// tellingCondition returns the condition that explains a problem, or else Ready.
func tellingCondition(conditions []metav1.Condition) metav1.Condition {
	for _, bad := range []struct {
		kind   string
		status metav1.ConditionStatus
	}{
		{v1alpha1.ConditionReady, metav1.ConditionFalse}, {v1alpha1.ConditionDegraded, metav1.ConditionTrue}, {v1alpha1.ConditionConverged, metav1.ConditionFalse},
	} {
		if meta.IsStatusConditionPresentAndEqual(conditions, bad.kind, bad.status) {
			return *meta.FindStatusCondition(conditions, bad.kind)
		}
	}
	if ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); ready != nil {
		return *ready
	}
	return metav1.Condition{}
}

func toneOf(condition metav1.Condition) tone {
	switch {
	case condition.Type == v1alpha1.ConditionConverged:
		return doubt
	case condition.Type == v1alpha1.ConditionReady && condition.Status == metav1.ConditionTrue, condition.Type == "":
		return plain
	}
	return bad
}
