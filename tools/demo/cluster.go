package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// namespace is the demo's own, and goes with it.
const namespace = "swarm-demo"

var (
	swarms     = schema.GroupVersionResource{Group: "swarm.io", Version: "v1alpha1", Resource: "swarms"}
	tasks      = schema.GroupVersionResource{Group: "swarm.io", Version: "v1alpha1", Resource: "tasks"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// A cluster is where the show is.
type cluster struct {
	client     dynamic.Interface
	server     string
	kubeconfig string
}

func connect(kubeconfig string) (cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return cluster{}, fmt.Errorf("read kubeconfig %q: %w", kubeconfig, err)
	}
	config.QPS, config.Burst, config.UserAgent = 100, 100, "swarm-demo"
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return cluster{}, fmt.Errorf("connect to the cluster: %w", err)
	}
	return cluster{client: client, server: config.Host, kubeconfig: kubeconfig}, nil
}

func (c cluster) resource(kind schema.GroupVersionResource) dynamic.ResourceInterface {
	return c.client.Resource(kind).Namespace(namespace)
}

// check explains what is missing before anything is changed.
func (c cluster) check(ctx context.Context) error {
	_, err := c.resource(swarms).List(ctx, metav1.ListOptions{Limit: 1})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the operator is not installed in this cluster: run make install KUBECONFIG=%s", c.kubeconfig)
	case err != nil:
		return fmt.Errorf("the cluster does not answer: %w: see whether it runs, or name another with KUBECONFIG=", err)
	}
	return nil
}

// apply makes an object what it should be, whatever created it.
func (c cluster) apply(ctx context.Context, to dynamic.ResourceInterface, object *unstructured.Unstructured) error {
	stored, err := to.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "swarm-demo", Force: true})
	switch {
	case err != nil:
		return fmt.Errorf("apply %s %q: %w", object.GetKind(), object.GetName(), err)
	case stored.GetDeletionTimestamp() != nil:
		return fmt.Errorf("%s %q is still being deleted: try again in a moment", object.GetKind(), object.GetName())
	}
	return nil
}

// remove deletes an object and waits until it is gone.
func (c cluster) remove(ctx context.Context, from dynamic.ResourceInterface, name string) error {
	err := from.Delete(ctx, name, metav1.DeleteOptions{})
	for err == nil {
		if _, err = from.Get(ctx, name, metav1.GetOptions{}); err == nil {
			err = wait(ctx, 200*time.Millisecond)
		}
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("delete %q: %w", name, err)
}

func wait(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pause):
		return nil
	}
}
