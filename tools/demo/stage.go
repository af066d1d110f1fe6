package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// stage puts the play into the cluster. Tasks of an earlier run are replaced, since a finished task stays finished; its swarm is kept.
func (c cluster) stage(ctx context.Context, wanted play) error {
	if err := c.makeNamespace(ctx); err != nil {
		return err
	}
	for _, task := range wanted.tasks {
		if err := c.remove(ctx, c.in(tasks), task.GetName()); err != nil {
			return err
		}
	}
	if err := c.apply(ctx, c.in(swarms), wanted.swarm); err != nil {
		return err
	}
	for _, task := range wanted.tasks {
		if err := c.apply(ctx, c.in(tasks), task); err != nil {
			return err
		}
	}
	return nil
}

// makeNamespace refuses pods below the restricted standard: agents need nothing beyond it.
func (c cluster) makeNamespace(ctx context.Context) error {
	wanted := &unstructured.Unstructured{}
	wanted.SetAPIVersion("v1")
	wanted.SetKind("Namespace")
	wanted.SetName(namespace)
	wanted.SetLabels(map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	return c.apply(ctx, c.client.Resource(namespaces), wanted)
}

// strike takes everything of ours out again, the swarm first, so that the operator can drain it and take its finalizer off.
func (c cluster) strike(ctx context.Context, out io.Writer, name string) error {
	fmt.Fprintf(out, "removing swarm %s and namespace %s\n", name, namespace)
	if err := c.remove(ctx, c.in(swarms), name); err != nil {
		return leftover(err, "does the operator run? kubectl -n swarm-system get pods")
	}
	if err := c.remove(ctx, c.client.Resource(namespaces), namespace); err != nil {
		return leftover(err, "see what is left with kubectl -n "+namespace+" get all,swarms,tasks")
	}
	_, err := fmt.Fprintf(out, "The operator stays. make uninstall KUBECONFIG=%s removes it, with every swarm of the cluster.\n", c.kubeconfig)
	return err
}

func leftover(err error, hint string) error {
	if errors.Is(err, errTimeout) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %s", err, hint)
	}
	return err
}
