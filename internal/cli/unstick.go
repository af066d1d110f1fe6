package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// minStuckAge is how long a deletion has to last before it counts as stuck: a running operator may still be working on it.
const minStuckAge = time.Minute

func (s *session) unstickCommand() *cobra.Command {
	var allNamespaces, dryRun bool
	command := &cobra.Command{
		Use:   "unstick [SWARM...]",
		Short: "Remove the finalizer of Swarms whose deletion waits for a removed operator",
		Long: `Remove the operator's finalizer from Swarms that are being deleted.

A deleted Swarm waits for the operator, which first stops the running attempts. Without an operator it waits forever, and so does its
namespace.
This command ends the wait: the garbage collector deletes the agents, and their attempts are stopped without an acknowledgement.

Without names it selects the Swarms whose deletion began more than a minute ago.`,
		Example: `  kubectl swarm unstick -A --dry-run
  kubectl swarm unstick -n team-a
  kubectl swarm unstick research`,
	}
	command.Flags().BoolVarP(&allNamespaces, "all-namespaces", "A", false, "select Swarms of all namespaces")
	command.Flags().BoolVar(&dryRun, "dry-run", false, "show the Swarms, and change nothing")
	command.RunE = func(command *cobra.Command, names []string) error {
		if allNamespaces && len(names) > 0 {
			return usageErrorf(command, "a swarm is named in one namespace: use -n instead of -A")
		}
		return s.unstick(command.Context(), names, allNamespaces, dryRun)
	}
	return command
}

func (s *session) unstick(ctx context.Context, names []string, allNamespaces, dryRun bool) error {
	at, err := s.open()
	if err != nil {
		return err
	}
	namespace := at.namespace
	if allNamespaces {
		namespace = ""
	}
	stuck, err := s.findStuck(ctx, at, namespace, names)
	if err != nil {
		return err
	}
	if len(stuck) == 0 {
		_, _ = fmt.Fprintln(s.ErrOut, "no Swarm is stuck")
		return nil
	}
	for n := range stuck {
		if err := s.removeFinalizer(ctx, at, &stuck[n], dryRun); err != nil {
			return err
		}
	}
	return nil
}

// findStuck returns the Swarms that only our finalizer keeps. A named one has to exist, and to be terminating.
func (s *session) findStuck(ctx context.Context, at cluster, namespace string, names []string) ([]v1alpha1.Swarm, error) {
	list := &v1alpha1.SwarmList{}
	if err := at.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list swarms: %w", err)
	}
	for _, name := range names {
		n := slices.IndexFunc(list.Items, func(swarm v1alpha1.Swarm) bool { return swarm.Name == name })
		switch {
		case n < 0:
			return nil, fmt.Errorf("there is no swarm %q in namespace %q", name, namespace)
		case list.Items[n].DeletionTimestamp.IsZero():
			return nil, fmt.Errorf("swarm %q is not being deleted: kubectl delete swarm %s comes first", name, name)
		}
	}
	return slices.DeleteFunc(list.Items, func(swarm v1alpha1.Swarm) bool {
		if swarm.DeletionTimestamp.IsZero() || !controllerutil.ContainsFinalizer(&swarm, v1alpha1.Finalizer) {
			return true
		}
		if len(names) > 0 {
			return !slices.Contains(names, swarm.Name)
		}
		return s.now().Sub(swarm.DeletionTimestamp.Time) < minStuckAge
	}), nil
}

// removeFinalizer removes the finalizer of exactly the object that was read.
func (s *session) removeFinalizer(ctx context.Context, at cluster, swarm *v1alpha1.Swarm, dryRun bool) error {
	if dryRun {
		_, _ = fmt.Fprintf(s.Out, "swarm.swarm.io/%s in namespace %s would be released\n", swarm.Name, swarm.Namespace)
		return nil
	}
	before := swarm.DeepCopy()
	controllerutil.RemoveFinalizer(swarm, v1alpha1.Finalizer)
	err := at.Patch(ctx, swarm, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("swarm %q has changed meanwhile: try again", swarm.Name)
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("remove the finalizer of swarm %q: %w", swarm.Name, err)
	}
	_, _ = fmt.Fprintf(s.Out, "swarm.swarm.io/%s in namespace %s released\n", before.Name, before.Namespace)
	return nil
}
