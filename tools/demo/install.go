package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// install puts the play into the cluster. Tasks of an earlier run are replaced, since a finished task stays finished; its swarm is kept.
func (c cluster) install(ctx context.Context, manifests demoManifests) error {
	if err := c.makeNamespace(ctx); err != nil {
		return err
	}
	for _, task := range manifests.tasks {
		if err := c.remove(ctx, c.resource(tasks), task.GetName()); err != nil {
			return err
		}
	}
	if err := c.apply(ctx, c.resource(swarms), manifests.swarm); err != nil {
		return err
	}
	for _, task := range manifests.tasks {
		if err := c.apply(ctx, c.resource(tasks), task); err != nil {
			return err
		}
	}
	return nil
}

// makeNamespace refuses pods below the restricted standard: agents need nothing beyond it.
func (c cluster) makeNamespace(ctx context.Context) error {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("v1")
	object.SetKind("Namespace")
	object.SetName(namespace)
	object.SetLabels(map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	return c.apply(ctx, c.client.Resource(namespaces), object)
}

// uninstall takes everything of ours out again, the swarm first, so that the operator can drain it and take its finalizer off.
func (c cluster) uninstall(ctx context.Context, out io.Writer, name string) error {
	fmt.Fprintf(out, "removing swarm %s and namespace %s\n", name, namespace)
	if err := c.remove(ctx, c.resource(swarms), name); err != nil {
		return cleanupError(err, "does the operator run? kubectl -n swarm-system get pods")
	}
	if err := c.remove(ctx, c.client.Resource(namespaces), namespace); err != nil {
		return cleanupError(err, "see what is left with kubectl -n "+namespace+" get all,swarms,tasks")
	}
	_, err := fmt.Fprintf(out, "The operator stays. make uninstall KUBECONFIG=%s removes it, with every swarm of the cluster.\n", c.kubeconfig)
	return err
}

func cleanupError(err error, hint string) error {
	if errors.Is(err, errTimeout) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %s", err, hint)
	}
	return err
}
